// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package redisnode

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	cryptorand "crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/shares"
)

func TestKeySlot(t *testing.T) {
	for key, want := range map[string]int{
		"123456789": 0x31c3, "foo": 12182, "": 0,
		"{user1000}.following": KeySlot("user1000"), "foo{bar}{zap}": KeySlot("bar"), "foo{{bar}}zap": KeySlot("{bar"), "a}{b}": KeySlot("b"),
	} {
		if got := KeySlot(key); got != want {
			t.Errorf("the slot of %q is %d, want %d", key, got, want)
		}
	}
	for _, key := range []string{"foo{}{bar}", "{bar", "a}", "{}bar"} {
		if KeySlot(key) == KeySlot("bar") || KeySlot(key) == KeySlot("") {
			t.Errorf("the slot of %q is not that of the whole key", key)
		}
	}
}

func TestNewSlotsLeavesOutNumbersThatAreNoSlots(t *testing.T) {
	for name, test := range map[string]struct {
		slots Slots
		want  string
	}{
		"no slots":                  {NewSlots(), ""},
		"slots":                     {NewSlots(3, 1, 2, 2, 9), "1-3,9"},
		"numbers that are no slots": {NewSlots(-1, 0, SlotCount), "0"},
		"a range":                   {SlotRange(3, 5), "3-5"},
		"an empty range":            {SlotRange(5, 3), ""},
		"a range beyond both ends":  {SlotRange(-7, 20000), "0-16383"},
		"a range above all slots":   {SlotRange(SlotCount, SlotCount+3), ""},
	} {
		if got := test.slots.String(); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// someSlots is a random set, as Slots and as a map. The test compares the two. The slots are near 0 and near the last slot, so that
// ranges often meet.
type someSlots struct {
	slots Slots
	set   map[int]bool
}

func newSome(random *rand.Rand) someSlots {
	s := someSlots{set: map[int]bool{}}
	for range random.IntN(30) {
		slot := random.IntN(40)
		if random.IntN(2) == 0 {
			slot = SlotCount - 1 - slot
		}
		s.set[slot] = true
	}
	s.slots = NewSlots(slices.Collect(maps.Keys(s.set))...)
	return s
}

func TestSlotsAreSets(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		a, b := newSome(random), newSome(random)
		wasA, wasB := slices.Clone(a.slots), slices.Clone(b.slots)
		n := random.IntN(40)
		checkSlots(t, "itself", a.slots, func(slot int) bool { return a.set[slot] })
		checkSlots(t, "union", a.slots.Union(b.slots), func(slot int) bool { return a.set[slot] || b.set[slot] })
		checkSlots(t, "without", a.slots.Without(b.slots), func(slot int) bool { return a.set[slot] && !b.set[slot] })
		checkSlots(t, "intersect", a.slots.Intersect(b.slots), func(slot int) bool { return a.set[slot] && b.set[slot] })
		lowest := slices.Sorted(maps.Keys(a.set))
		lowest = lowest[:min(n, len(lowest))]
		checkSlots(t, "first", a.slots.First(n), func(slot int) bool { return slices.Contains(lowest, slot) })
		if a.slots.Equal(b.slots) != maps.Equal(a.set, b.set) {
			t.Errorf("Equal is wrong for %q and %q", a.slots, b.slots)
		}
		if !a.slots.Equal(wasA) || !b.slots.Equal(wasB) {
			t.Fatalf("the sets %q and %q were changed to %q and %q", wasA, wasB, a.slots, b.slots)
		}
		if t.Failed() {
			t.Fatalf("the errors are of the sets %q and %q, and the number %d", a.slots, b.slots, n)
		}
	}
}

// checkSlots fails the test if the set contains other slots than those for which has returns true, or if its ranges are not in the normal
// form.
func checkSlots(t *testing.T, what string, slots Slots, has func(int) bool) {
	t.Helper()
	var want []int
	for slot := range SlotCount {
		if has(slot) {
			want = append(want, slot)
		}
		if slots.Has(slot) != has(slot) {
			t.Errorf("%s: Has of %q is wrong for slot %d", what, slots, slot)
		}
	}
	if got := slices.Collect(slots.All()); !slices.Equal(got, want) || slots.Len() != len(want) {
		t.Errorf("%s: All of %q yields %v, and Len is %d; want %v", what, slots, got, slots.Len(), want)
	}
	if len(want) == 0 && slots != nil {
		t.Errorf("%s: the empty set is not nil", what)
	}
	for i, r := range slots {
		if r.First > r.Last || (i > 0 && r.First <= slots[i-1].Last+1) {
			t.Errorf("%s: %v is not sorted, disjoint and joined", what, []Range(slots))
		}
	}
}

func TestVerifyCertificate(t *testing.T) {
	const name = "redis.example"
	now := time.Now()
	// Each certificate has signed itself, and so is its own CA.
	issue := func(from, to time.Duration) *x509.Certificate {
		key, err := ecdsa.GenerateKey(elliptic.P256(), cryptorand.Reader)
		must.Succeed(t, err)
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: now.Add(from), NotAfter: now.Add(to),
			IsCA: true, BasicConstraintsValid: true,
		}
		der, err := x509.CreateCertificate(cryptorand.Reader, template, template, &key.PublicKey, key)
		must.Succeed(t, err)
		certificate, err := x509.ParseCertificate(der)
		must.Succeed(t, err)
		return certificate
	}
	valid, other := issue(-time.Hour, time.Hour), issue(-time.Hour, time.Hour)
	expired, future := issue(-2*time.Hour, -time.Hour), issue(time.Hour, 2*time.Hour)
	old := issue(-2*maxExpired, -maxExpired-time.Hour)
	trusting := func(name, pin string, ca *x509.Certificate) TLS {
		return TLS{Name: name, Pin: pin, Authorities: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}))}
	}
	for sentence, test := range map[string]struct {
		trust  TLS
		served *x509.Certificate
		ok     bool
	}{
		"one of the CA":                     {trusting(name, "", valid), valid, true},
		"one of another CA":                 {trusting(name, "", other), valid, false},
		"one with another name":             {trusting("other.example", "", valid), valid, false},
		"one that has expired":              {trusting(name, "", expired), expired, true},
		"one that expired long ago":         {trusting(name, "", old), old, false},
		"one of another CA that expired":    {trusting(name, "", other), expired, false},
		"one that is not valid yet":         {trusting(name, "", future), future, false},
		"the pinned one, of another CA":     {trusting("other.example", Fingerprint(valid.Raw), other), valid, true},
		"another one than the pinned one":   {trusting(name, Fingerprint(other.Raw), other), valid, false},
		"no CA is known, and no pinned one": {TLS{Name: name}, valid, false},
	} {
		err := test.trust.verify([]*x509.Certificate{test.served})
		if (err == nil) != test.ok || (err != nil && !errors.Is(err, ErrCertificate)) {
			t.Errorf("%s: error %v, want none: %t", sentence, err, test.ok)
		}
	}
}

// TestHangUpWithoutAConnection: if a context ends at the moment at which its command succeeds, the connection is closed before
// ReloadCertificate closes it.
func TestHangUpWithoutAConnection(*testing.T) {
	Dial("127.0.0.1", 1, Login{}).hangUp(nil)
}

// TestAConnectionIsNoReasonToRefuse answers all commands with errors that say nothing about a directive or a user's rules.
func TestAConnectionIsNoReasonToRefuse(t *testing.T) {
	for _, answer := range []string{
		"ERR max number of clients reached", "LOADING Redis is loading the dataset in memory", "WRONGPASS invalid username-password pair",
		"ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
	} {
		port := must.Listen(t, func(conn net.Conn) {
			buffer := make([]byte, 4096)
			for _, err := conn.Read(buffer); err == nil; _, err = conn.Read(buffer) {
				fmt.Fprintf(conn, "-%s\r\n", answer)
			}
		})
		node := Dial("127.0.0.1", port, Login{Password: "needless"})
		_, directive := errors.AsType[*RefusedDirectiveError](node.SetDirective(t.Context(), "maxmemory", "0"))
		_, rules := errors.AsType[*RefusedRulesError](node.SetUser(t.Context(), "app", []string{"on"}))
		if directive || rules {
			t.Errorf("%s: the directive is refused: %v, the rules: %v", answer, directive, rules)
		}
		node.Close()
	}
}

func TestAReadOnlyNodeSendsNoCommandThatChangesSomething(t *testing.T) {
	node := DialReadOnly("127.0.0.1", 1, Login{}) // Nothing listens there: a command that is sent has another error.
	defer node.Close()
	ctx, slots := t.Context(), SlotRange(0, 1)
	for command, err := range map[string]error{
		"meet": node.Meet(ctx, "10.0.0.1", 6379, 16379), "forget": node.Forget(ctx, "id"), "add slots": node.AddSlots(ctx, slots),
		"replicate": node.Replicate(ctx, "id"), "reconnect": node.Reconnect(ctx, "id", "other"),
		"failover": node.Failover(ctx, Takeover), "set slots": node.SetSlots(ctx, slots, SlotStable, ""),
		"migrate": node.Migrate(ctx, "10.0.0.1", 6379, Login{}, time.Second, []string{"key"}), "restore": node.RestoreFunctions(ctx, "dump"),
		"set": node.SetDirective(ctx, "maxmemory", "0"), "set user": node.SetUser(ctx, "app", nil), "save": node.SaveUsers(ctx),
		"delete users": node.DeleteUsers(ctx, []string{"app"}), "end": node.EndConnections(ctx, "app"),
		"delete library": node.DeleteLibrary(ctx, "library"), "pause": node.PauseWrites(ctx, time.Second), "resume": node.ResumeWrites(ctx),
	} {
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: error %v", command, err)
		}
	}
	_, view := node.View(ctx)
	_, keys := node.Keys(ctx, slots, 1)
	_, libraries := node.Libraries(ctx)
	_, dump := node.DumpFunctions(ctx)
	_, directives := node.Directives(ctx, []string{"maxmemory"})
	_, users := node.Users(ctx)
	for command, err := range map[string]error{
		"view": view, "keys": keys, "libraries": libraries, "dump": dump, "get": directives, "users": users,
	} {
		if err == nil || errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: error %v, want an error of the connection", command, err)
		}
	}
}

// TestLongRepliesTakeTurns has room for one long reply of a tenant. A node announces one, and sends nothing. A second long reply waits, in
// vain or until the first has ended. A short one does not wait, nor does one of another tenant.
func TestLongRepliesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := shares.New[string](2 * maxReplies)
		limits := map[string]*replyLimit{}
		read := func(tenant, name string, length, sent int) error {
			ours, theirs := net.Pipe()
			limits[name] = &replyLimit{all: all, tenant: tenant}
			limits[name].begin(maxReplies)
			conn := limitReplies(ours, limits[name])
			go func() {
				_, _ = io.CopyN(io.Discard, theirs, 1) // the request
				_, _ = fmt.Fprintf(theirs, "$%d\r\n%s\r\n", length, strings.Repeat("x", sent))
				_ = theirs.Close()
			}()
			_, _ = conn.Write([]byte("?"))
			_, err := io.Copy(io.Discard, conn)
			_ = conn.Close()
			return err
		}
		if err := read("a", "first", 2*maxShort, 0); err != nil {
			t.Errorf("the first long reply: error %v", err)
		}
		begin := time.Now()
		if err := read("a", "short", maxShort/2, maxShort/2); err != nil || time.Since(begin) > 0 {
			t.Errorf("a short reply: error %v after %v", err, time.Since(begin))
		}
		if err := read("b", "other", maxShort, maxShort); err != nil || time.Since(begin) > 0 {
			t.Errorf("the long reply of another tenant: error %v after %v", err, time.Since(begin))
		}
		limits["other"].end()
		if err := read("a", "second", 2*maxShort, 2*maxShort); !errors.Is(err, errBusy) || time.Since(begin) != ioTimeout {
			t.Errorf("the second long reply: error %v after %v, want %v after %v", err, time.Since(begin), errBusy, ioTimeout)
		}
		time.AfterFunc(time.Second, limits["first"].end)
		if err := read("a", "second", 2*maxShort, 2*maxShort); err != nil {
			t.Errorf("the second long reply, when the first is parsed: error %v", err)
		}
	})
}

// TestParsersOfLongReplies parses replies of 2 MiB that would take many times their memory if their parts were kept.
func TestParsersOfLongReplies(t *testing.T) {
	id, spaces := strings.Repeat("a", 40), strings.Repeat(" ", maxReplies)
	line := id + " 10.0.0.1:6379@16379 myself,master - 0 0 1 connected "
	var distinct strings.Builder // Each node has every second slot.
	for i := 0; distinct.Len() < maxReplies; i = (i + 2) % SlotCount {
		if i == 0 {
			distinct.WriteString("\n" + line)
		}
		fmt.Fprint(&distinct, i, " ")
	}
	for name, parse := range map[string]func() error{
		"ACL LIST":      func() error { _, err := parseUsers([]any{"user a" + spaces}); return err },
		"CLUSTER NODES": func() error { _, err := parseTable(line + strings.Repeat("0 ", maxReplies/2)); return err },
		"FUNCTION LIST": func() error {
			_, err := parseLibraries([]any{[]any{"library_name", "a", "functions", []any{strings.Repeat("\x00", maxReplies)}}})
			return err
		},
		"distinct slots": func() error {
			table, err := parseTable(distinct.String())
			if err == nil {
				t.Errorf("a table of %d nodes has more slots than there are", len(table))
			}
			return err
		},
		"an ID": func() error { _, err := parseTable(strings.Repeat(id, maxReplies/40) + line[40:]); return err },
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := parse()
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 4*maxReplies {
			t.Errorf("%s: %d MiB allocated", name, took>>20)
		}
		if err != nil && len(err.Error()) > 2*maxText {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
	}
}
