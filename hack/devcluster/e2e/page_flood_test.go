// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/memory"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	groupav1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	"github.com/glassback/glassback/pkg/must"
)

// flooded is the informer whose WATCH gets the added updates.
const flooded = "configmaps(apiexamplea)"

// flood is a proxy between one operator and the API server. While rate is not 0, it adds updates of ConfigMaps to the WATCH of
// ApiExampleAs' ConfigMaps. It sends more updates than an API server could on a machine that also runs an operator and a browser. Only an
// annotation changes, which has no effect.
type flood struct {
	kubeconfig string
	rate       atomic.Int64 // changes a second
	changes    atomic.Int64 // number of changes sent
}

// flood returns a flood for the account of a kubeconfig.
func (w *world) flood(t *testing.T, account string) *flood {
	t.Helper()
	config, err := clientcmd.LoadFromFile(account)
	w.must(t, err)
	target, err := url.Parse(w.config.Host)
	w.must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(w.config.CAData)
	f := &flood{}
	server := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			if f.fills(r.Out) {
				r.Out.Header.Set("Accept", "application/json") // a line for each event
				r.Out.Header.Set("Accept-Encoding", "identity")
			}
		},
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true},
		FlushInterval: -1, // watches
		ModifyResponse: func(r *http.Response) error {
			if f.fills(r.Request) && r.StatusCode == http.StatusOK {
				r.Body = f.fill(r.Request.Context(), r.Body)
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	})
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.CloseClientConnections)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for _, c := range config.Clusters {
		*c = clientcmdapi.Cluster{Server: server.URL, CertificateAuthorityData: ca}
	}
	f.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	w.must(t, clientcmd.WriteToFile(*config, f.kubeconfig))
	return f
}

// fills returns whether a request is the WATCH that gets the added updates.
func (f *flood) fills(r *http.Request) bool {
	query := r.URL.Query()
	return strings.HasSuffix(r.URL.Path, "/api/v1/configmaps") && query.Get("watch") != "" &&
		query.Get("labelSelector") == groupav1.LabelApiExampleA
}

// pour is the interval between two additions of updates.
const pour = 5 * time.Millisecond

// fill returns the stream for the operator: the events of the API server and the added updates.
func (f *flood) fill(ctx context.Context, upstream io.ReadCloser) io.ReadCloser {
	downstream, out := io.Pipe()
	lines := make(chan []byte)
	go func() {
		defer close(lines)
		defer upstream.Close()
		for in := bufio.NewReader(upstream); ; {
			line, err := in.ReadBytes('\n')
			if err != nil {
				return
			}
			select {
			case lines <- line:
			case <-ctx.Done():
				return
			}
		}
	}()
	go func() {
		tick := time.NewTicker(pour)
		defer tick.Stop()
		var changing changing
		owed, last := 0.0, time.Now()
		for {
			var event []byte
			select {
			case <-ctx.Done():
				out.CloseWithError(ctx.Err())
				return
			case line, open := <-lines:
				if !open {
					out.CloseWithError(io.ErrUnexpectedEOF)
					return
				}
				changing.note(line)
				event = line
			case now := <-tick.C:
				owed += now.Sub(last).Seconds() * float64(f.rate.Load())
				last = now
				for ; owed >= 1 && len(changing.objects) > 0; owed-- {
					event = changing.next(event, f.changes.Add(1))
				}
			}
			if len(event) == 0 {
				continue
			}
			if _, err := out.Write(event); err != nil {
				return // The client has closed the connection.
			}
		}
	}()
	return downstream
}

// changing keeps the objects in the events of the API server.
type changing struct {
	objects []template
	at      map[string]int
}

// template is an event without its resourceVersion. The resourceVersion is inserted twice: the annotation has the same value.
type template struct{ begin, middle, end []byte }

// placeholder is a value that no other field has.
const placeholder = "4104104104104104104"

// beyondOwn is above all resourceVersions of the API server. The added changes have resourceVersions above it.
const beyondOwn = 1_000_000_000

// note keeps the object of an event of the API server. It ignores deletions: this test deletes no ConfigMap.
func (c *changing) note(line []byte) {
	var event struct {
		Type   string                     `json:"type"`
		Object map[string]json.RawMessage `json:"object"`
	}
	meta := map[string]any{}
	if json.Unmarshal(line, &event) != nil || (event.Type != "ADDED" && event.Type != "MODIFIED") ||
		json.Unmarshal(event.Object["metadata"], &meta) != nil {
		return
	}
	meta["resourceVersion"] = placeholder
	meta["annotations"] = map[string]string{"example.com/flood": placeholder}
	changed, err := json.Marshal(meta)
	if err != nil {
		return
	}
	event.Type, event.Object["metadata"] = "MODIFIED", changed
	data, err := json.Marshal(event)
	if err != nil {
		return
	}
	parts := bytes.Split(append(data, '\n'), []byte(placeholder))
	if len(parts) != 3 {
		return
	}
	key := fmt.Sprint(meta["namespace"], "/", meta["name"])
	n, known := c.at[key]
	if !known {
		n = len(c.objects)
		c.objects = append(c.objects, template{})
		if c.at == nil {
			c.at = map[string]int{}
		}
		c.at[key] = n
	}
	c.objects[n] = template{parts[0], parts[1], parts[2]}
}

// next appends change number n.
func (c *changing) next(events []byte, n int64) []byte {
	object := c.objects[n%int64(len(c.objects))]
	version := strconv.FormatInt(beyondOwn+n, 10)
	for _, part := range [][]byte{object.begin, []byte(version), object.middle, []byte(version), object.end} {
		events = append(events, part...)
	}
	return events
}

const (
	floodRate    = 2000 // changes a second; fewer if the machine cannot send and read so many
	floodObjects = 200
	floodTime    = 20 * time.Second
	idleTime     = 3 * time.Second
)

// The limits for the page and for the operator. Both run on one machine together with the API server and the browser.
const (
	slowestFrames = 250 * time.Millisecond // 95 % of the frames take less than this, or less than three times as long as without changes
	maxBehind     = floodRate              // changes in the delta queue
	maxLag        = 1.0                    // seconds from the arrival of an event until it is in the index
	maxHeap       = 32 << 20               // bytes
	maxGrowth     = 8 << 20                // bytes in the last 15 seconds
	maxNodes      = 6000                   // nodes of the DOM
)

// watchFrames is a script that records the durations of the page's frames, and its messages.
const watchFrames = `window.frames = { gaps: [], behind: 0, dots: 0, notices: [] }; let last = performance.now();
	const frame = (now) => {
		frames.gaps.push(now - last);
		last = now;
		frames.behind += Number(!document.getElementById('live').hidden);
		frames.dots = Math.max(frames.dots, document.querySelectorAll('.dot').length);
		const notice = document.getElementById('notice').innerText;
		if (notice && notice !== frames.notices.at(-1)) frames.notices.push(notice);
		requestAnimationFrame(frame);
	};
	requestAnimationFrame(frame);`

// frames are the records of the page.
type frames struct {
	Gaps    []float64 `json:"gaps"`    // milliseconds
	Behind  int       `json:"behind"`  // number of frames so late that the page offered to skip changes
	Dots    int       `json:"dots"`    // maximal number at a time
	Notices []string  `json:"notices"` // all notices of the page
}

// within returns the duration of the slowest frame among the given percentage of the fastest frames.
func (f frames) within(percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(f.Gaps))
	if len(sorted) == 0 {
		return time.Hour // The page recorded no frame.
	}
	return time.Duration(sorted[(len(sorted)-1)*percent/100] * float64(time.Millisecond)).Round(time.Millisecond)
}

func (f frames) String() string {
	return fmt.Sprintf("%d frames, half of them within %s, 95%% within %s, all within %s, %d behind, up to %d dots",
		len(f.Gaps), f.within(50), f.within(95), f.within(100), f.Behind, f.Dots)
}

// during clears the records, waits, and returns the records of this time. It calls look every second.
func (p *tab) during(passes time.Duration, look func(second int)) frames {
	p.t.Helper()
	p.run("Object.assign(frames, { gaps: [], behind: 0, dots: 0, notices: [] })")
	for second := 1; second <= int(passes/time.Second); second++ {
		time.Sleep(time.Second) // The test measures a duration.
		look(second)
	}
	return ask[frames](p, "frames")
}

// weight is the memory use of the page after a garbage collection.
type weight struct {
	heap  float64 // bytes of the JavaScript heap
	nodes int64   // nodes of the DOM, and removed nodes that scripts still refer to
}

func (p *tab) weigh() weight {
	p.t.Helper()
	p.do(tell(heapprofiler.CollectGarbage, cdp.Empty{}))
	w, err := answer(p, func(ctx context.Context, target *chromedp.Target) (weight, error) {
		heap, err1 := cdp.Call(ctx, target, cdpruntime.GetHeapUsage, cdp.Empty{})
		counters, err2 := cdp.Call(ctx, target, memory.GetDOMCounters, cdp.Empty{})
		return weight{heap.UsedSize, counters.Nodes}, errors.Join(err1, err2)
	})
	must.Succeed(p.t, err)
	return w
}

func testFlood(t *testing.T, s *shown) {
	for n := range floodObjects {
		example := &groupav1.ApiExampleA{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("flooded-%d", n)}}
		_, err := s.glassback.GroupaV1().ApiExampleAs(s.ns).Create(t.Context(), example, metav1.CreateOptions{})
		s.must(t, err)
	}
	p := s.open(t, "/")
	p.click("#ideas-read")
	objects := "Number(" + textOf(gear("index", flooded)+" .gear-value") + ")"
	p.until(pagePatience, fmt.Sprintf("%s >= %d", objects, floodObjects), objects)
	p.do(tell(dom.Disable, cdp.Empty{})) // Without this, the browser notifies chromedp of every added and removed node.
	p.run(watchFrames)
	idle := p.during(idleTime, func(int) {})
	t.Logf("idle: %s", idle)

	s.flood.rate.Store(floodRate)
	defer s.flood.rate.Store(0)
	var seen samples
	seen.take(t, s)
	var early weight
	busy := p.during(floodTime, func(second int) {
		seen.take(t, s)
		switch second {
		case 5:
			early = p.weigh()
		case 10:
			p.shoot("flood")
		}
	})
	late := p.weigh()
	s.flood.rate.Store(0)
	t.Logf("the operator: %s", &seen)
	t.Logf("the page: %s", busy)
	t.Logf("the page: %+v after 5 seconds, %+v after 20; its last notice was %q", early, late, busy.Notices[max(0, len(busy.Notices)-1):])
	seen.check(t)
	checkPage(t, idle, busy, early, late)
	s.calm(t, p)
}

// samples are the figures in the operator's overview.
type samples struct {
	times           []time.Time
	arrived, failed []uint64 // changes; syncs
	queued, waiting []int
	lag             []float64 // seconds
	oneIn           []int
	sent            []int64 // changes that the test has sent
}

func (a *samples) String() string {
	return fmt.Sprintf("%.0f changes a second; in its delta queue %v, with a lag of %.3v s; in its workqueue %v; recorded 1 in %v", a.rate(),
		a.queued, a.lag, a.waiting, a.oneIn)
}

// rate returns the number of changes per second that the operator read.
func (a *samples) rate() float64 {
	last := len(a.times) - 1
	return float64(a.arrived[last]-a.arrived[0]) / a.times[last].Sub(a.times[0]).Seconds()
}

func (a *samples) take(t *testing.T, s *shown) {
	t.Helper()
	o, err := s.overview(t.Context())
	s.must(t, err)
	a.times, a.oneIn, a.sent = append(a.times, o.Time), append(a.oneIn, o.OneIn), append(a.sent, s.flood.changes.Load())
	for _, i := range o.Informers {
		if i.ID == flooded {
			a.arrived, a.queued, a.lag = append(a.arrived, i.Arrived), append(a.queued, i.Queued), append(a.lag, i.Lag)
		}
	}
	for _, c := range o.Controllers {
		if c.ID == "apiexamplea" {
			a.waiting = append(a.waiting, c.Waiting)
			a.failed = append(a.failed, c.Failed+c.Panics)
		}
	}
}

func (a *samples) check(t *testing.T) {
	t.Helper()
	last := len(a.sent) - 1
	if sent, read := a.sent[last]-a.sent[0], a.arrived[last]-a.arrived[0]; float64(read) < 0.9*float64(sent) {
		t.Errorf("the operator read %d of %d changes while they were sent", read, sent)
	}
	if slices.Max(a.queued) > maxBehind || slices.Max(a.lag) > maxLag || a.failed[0] != slices.Max(a.failed) {
		t.Errorf("the operator is too slow: %s; failed syncs %v", a, a.failed)
	}
	if slices.Max(a.oneIn) == 1 {
		t.Error("the operator recorded all changes: it did not limit the cost of records")
	}
}

// checkPage checks that the page was nearly as fast as without changes.
func checkPage(t *testing.T, idle, busy frames, early, late weight) {
	t.Helper()
	if limit := max(slowestFrames, 3*idle.within(95)); busy.within(95) > limit {
		t.Errorf("%s, want 95%% within %s", busy, limit)
	}
	if busy.Behind*20 > len(busy.Gaps) {
		t.Errorf("%s, want less than 5%% behind", busy)
	}
	if late.heap > maxHeap || late.heap-early.heap > maxGrowth || late.nodes > maxNodes {
		t.Errorf("the page has grown from %+v to %+v", early, late)
	}
	if busy.Dots == 0 || !slices.ContainsFunc(busy.Notices, func(n string) bool { return strings.Contains(n, "changes is shown") }) {
		t.Errorf("the page showed %d dots and the notices %q; want dots, and a notice that some changes are not shown", busy.Dots, busy.Notices)
	}
}

// calm waits until the operator has processed all changes of the flood, and the page shows it.
func (s *shown) calm(t *testing.T, p *tab) {
	t.Helper()
	began := time.Now()
	shows := textOf(gear("wire", flooded))
	eventually(t, pagePatience, func(ctx context.Context) error {
		o, err := s.overview(ctx)
		if err != nil {
			return err
		}
		for _, c := range o.Controllers {
			if c.ID == "apiexamplea" && c.Waiting+c.Processing > 0 {
				return fmt.Errorf("the state of the controller is %+v", c)
			}
		}
		for _, i := range o.Informers {
			if i.ID != flooded {
				continue
			}
			if i.Queued > 0 || i.Arrived != i.Applied {
				return fmt.Errorf("the state of the informer is %+v", i)
			}
			if text := ask[string](p, shows); !strings.Contains(text, "rv "+i.ResourceVersion) {
				return fmt.Errorf("the page shows %q, but the operator has read the resourceVersion %s", text, i.ResourceVersion)
			}
		}
		return nil
	})
	p.until(pagePatience, "document.getElementById('notice').hidden && document.getElementById('live').hidden", textOf("#bar"))
	t.Logf("%s after the last change, all changes were processed and shown", time.Since(began).Round(time.Millisecond))
}
