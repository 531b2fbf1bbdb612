// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/glassback/glassback/hack/ecssim"
	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/leaktest"
	"github.com/glassback/glassback/pkg/must"
)

const testToken = "CAIS+tokenOfTheOperator/NeverLogged=="

// secretTexts are the texts that must not be in any output.
var secretTexts = leaktest.Secrets{
	"an access key ID": testID, "its secret": testSecret, "another access key ID": otherID, "the other's secret": otherSecret,
	"a security token": testToken, "a password in user data": "hunter2IsThePassword", "user data": script,
}

// leaks returns the secrets in a text, and the parameters of requests that carry secrets.
func leaks(text string) []string {
	found := secretTexts.In(text)
	for _, sign := range []string{"Signature=", "Signature%3D", "AccessKeyId=", "SecurityToken=", "UserData="} {
		if strings.Contains(text, sign) {
			found = append(found, sign)
		}
	}
	return found
}

// outputs returns all text that the operator has written: its log, its events, and its writes to the API server.
func (w *world) outputs() map[string]string {
	texts := map[string]string{}
	w.mu.Lock()
	texts["the log"] = w.log.String()
	texts["the events"] = strings.Join(w.events, "\n")
	w.mu.Unlock()
	var all bytes.Buffer
	for _, event := range w.api.Events() {
		ecs, ok := event.Now.(*v1alpha1.ECSInstance)
		if !ok {
			continue
		}
		must.Succeed(w.t, json.NewEncoder(&all).Encode(ecs))
		fmt.Fprintf(&all, "%+v\n", ecs.Status)
	}
	texts["the objects"] = all.String()
	return texts
}

// errorTexts makes all calls to ECS with all faults. It returns the errors, printed with every verb of fmt.
func (w *world) errorTexts(times int) string {
	cloud, err := aliyun.New(aliyun.Config{Endpoint: "http://ecs.example.com", Transport: w.cloud.Transport()})
	must.Succeed(w.t, err)
	var all strings.Builder
	name := "renamed"
	uid := w.get("hasScript-0").UID // ECS repeats the script in answers about this object.
	for n := range times {
		key := &aliyun.AccessKey{ID: testID, Secret: []string{testSecret, otherSecret}[n%2], SecurityToken: testToken}
		if n/2%2 == 1 {
			key.ID, key.SecurityToken = otherID, "expired"+testToken
		}
		region := cloud.Open(key, []string{"cn-beijing", "cn-atlantis"}[n/4%2])
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		_, account := region.Account(ctx)
		token := fmt.Sprint(uid, "-", n)
		_, created := region.Create(ctx, aliyun.CreateRequest{
			Type: "ecs.g6.large", ImageID: "a.vhd", UserData: []byte(script), ClientToken: token,
		})
		_, described := region.Describe(ctx, []string{"i-0"})
		_, found := region.Find(ctx, map[string]string{"a": "b"})
		for _, err := range []error{
			account, created, described, found,
			region.Start(ctx, "i-0"), region.Stop(ctx, "i-0"), region.Delete(ctx, "i-0", true), region.SetType(ctx, "i-0", "ecs.g6.large"),
			region.Modify(ctx, "i-0", aliyun.Change{Name: &name}),
			region.Tag(ctx, "i-0", map[string]string{"a": "b"}), region.Untag(ctx, "i-0", []string{"a"}),
		} {
			if err == nil {
				continue
			}
			e, ok := errors.AsType[*aliyun.Error](err)
			if !ok {
				w.t.Errorf("%v is not an *aliyun.Error", err)
				continue
			}
			fmt.Fprintf(&all, "%v\n%+v\n%#v\n%+v\n%v\n%s\n", err, err, *e, problemOf(err, "Secret aliyun"), errors.Unwrap(err), klog.Format(err))
		}
		cancel()
		time.Sleep(time.Minute) // ECS limits the calls per minute.
	}
	return all.String()
}

// newRepeatingWorld returns a faultyWorld in which ECS repeats the request in its answer. One account has a security token.
func newRepeatingWorld(t *testing.T, seed uint64) *faultyWorld {
	m := newFaultyWorld(t, seed)
	m.logAll = true
	m.cloud = ecssim.New(ecssim.Config{Seed: seed, Accounts: []ecssim.Account{
		{ID: testAccount, AccessKeyID: testID, AccessKeySecret: testSecret, SecurityToken: testToken},
		{ID: otherAccount, AccessKeyID: otherID, AccessKeySecret: otherSecret},
	}})
	m.trouble = 0.3
	m.cloud.SetFault(func(call ecssim.Call) ecssim.Fault {
		m.mu.Lock()
		trouble := m.trouble
		m.mu.Unlock()
		dice := m.dice.roll("setCredentials " + call.Action + call.AccountID + call.RegionID).Float64()
		id, repeated := otherID, ""
		if call.AccountID == testAccount {
			id, repeated = testID, encodings(testToken)
		}
		repeated += encodings(id)
		if slices.ContainsFunc(call.Params["ClientToken"], m.hasScript) {
			repeated += encodings(base64.StdEncoding.EncodeToString([]byte(script))) + script
		}
		if dice >= trouble/3 {
			return m.fault(call)
		}
		return []ecssim.Fault{
			{Before: ecssim.Error(400, "InvalidParameter.UserData", "The specified value "+repeated+" is not valid.")},
			{Before: ecssim.Error(400, "SignatureDoesNotMatch", "server string to sign is:POST&%2F&"+repeated)},
			{Before: ecssim.Error(403, id, "Forbidden: "+repeated)},
			{Before: &ecssim.Reply{Status: 500, ContentType: "text/html", Body: "<pre>" + repeated + "</pre>"}},
			{After: ecssim.Error(400, "OperationDenied", repeated)},
		}[int(dice*1e6)%5]
	})
	return m
}

// encodings returns the forms in which a server may repeat a parameter: unchanged, as in a URL, and as in the signed string.
func encodings(value string) string {
	return " " + value + " " + url.QueryEscape(value) + "&x=" + url.QueryEscape(url.QueryEscape(value)) + " "
}

// hasScript returns whether a client token belongs to an object with a script.
func (m *faultyWorld) hasScript(token string) bool {
	for _, ecs := range m.all() {
		if strings.HasPrefix(token, string(ecs.UID)) {
			return ecs.Spec.UserDataSecretRef != nil
		}
	}
	return false
}

// setCredentials changes the Secret of credentials in one write: the access key and its security token.
func (m *faultyWorld) setCredentials(id, secret string) {
	m.editSecret("aliyun", func(s *corev1.Secret) {
		s.Data = map[string][]byte{v1alpha1.KeyAccessKeyID: []byte(id), v1alpha1.KeyAccessKeySecret: []byte(secret)}
		if id == testID {
			s.Data[v1alpha1.KeySecurityToken] = []byte(testToken)
		}
	})
}

// changeObject changes objects like a user, but leaves the Secrets alone.
func (m *faultyWorld) changeObject() {
	if len(m.names) == 0 || m.chance(1, 3) {
		m.create()
		return
	}
	name := m.names[m.pick(len(m.names))]
	switch m.pick(6) {
	case 0:
		m.delete(name)
	case 1:
		m.console(name)
	default:
		m.edit(name, m.editor())
	}
}

// disturbOperator does the same as disturb, but leaves the Secrets alone.
func (m *faultyWorld) disturbOperator(current *operator) *operator {
	switch m.pick(6) {
	case 0:
		current.die(1 + m.pick(12))
		time.Sleep(time.Duration(m.pick(90)) * time.Second)
		current.die(0)
		current.end()
		return m.start()
	case 1:
		other := m.start()
		m.changeObject()
		time.Sleep(time.Duration(m.pick(20)) * time.Second)
		current.end()
		return other
	}
	return current
}

// TestNothingSecretGetsOut: ECS has all faults, and repeats the requests in its answers. The operator's log, events and writes have no
// secret. GLASSBACK_SEEDS=n runs so many worlds.
func TestNothingSecretGetsOut(t *testing.T) {
	for seed := range fakeapi.Seeds(t, 4, 2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newRepeatingWorld(t, seed+1)
				defer m.finish()
				m.setCredentials(testID, testSecret)
				m.api.Put(userData("script"))
				current := m.start()
				for n := range 4 {
					m.apply(fmt.Sprintf("hasScript-%d", n), func(e *v1alpha1.ECSInstance) {
						e.Spec.UserDataSecretRef = &v1alpha1.SecretKeyReference{Name: "script", Key: "userData"}
					})
				}
				for range 20 {
					m.changeObject()
					m.setCredentials([]string{testID, otherID}[m.pick(2)], []string{testSecret, otherSecret}[m.pick(2)])
					m.pause()
					m.setCredentials(testID, testSecret)
					m.pause()
					current = m.disturbOperator(current)
				}
				texts := m.outputs()
				texts["the errors"] = m.errorTexts(32)
				for where, text := range texts {
					if len(text) < 1000 {
						t.Errorf("%s: only %d bytes", where, len(text))
					}
					if found := leaks(text); len(found) > 0 {
						t.Errorf("%s: it has the secrets %q", where, found)
					}
				}
				if log := texts["the log"]; !strings.Contains(log, "Call to ECS failed") || !strings.Contains(log, "Could not describe instances") {
					t.Error("the log has no failed call")
				}
			})
		})
	}
}

// TestSecretsAreFound proves that TestNothingSecretGetsOut can fail. The tests of package leaktest prove it for every form of a secret.
func TestSecretsAreFound(t *testing.T) {
	texts := []string{"POST /?Signature=abc", "&AccessKeyId=" + url.QueryEscape(otherID)}
	for _, secret := range secretTexts {
		texts = append(texts, "INFO something\n"+secret+"\nINFO something else")
	}
	for _, text := range texts {
		if len(leaks(text)) == 0 {
			t.Errorf("the search found no secret in %q", text)
		}
	}
	if found := leaks("CreateInstance: OperationDenied.NoStock: no stock (request 9D8E)"); len(found) > 0 {
		t.Errorf("the search found %q in a text without a secret", found)
	}
}

// TestEveryOutputIsSearched proves that the search covers every output in which a secret could leak.
func TestEveryOutputIsSearched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(10), textlogger.Output(w)))
		logger.V(10).Info("Signed", "err", errors.New("POST http://ecs/?Signature=x"), "script", script)
		recorder{w}.Eventf(nil, corev1.EventTypeWarning, "Leaked", "with %s", testSecret)
		w.apply("vm")
		w.edit("vm", func(e *v1alpha1.ECSInstance) { e.Status.State = testToken })
		w.edit("vm", func(e *v1alpha1.ECSInstance) { e.Status.State = "" })
		for where, text := range w.outputs() {
			if len(leaks(text)) == 0 {
				t.Errorf("the search found no secret in %s", where)
			}
		}
	})
}

// TestAccessKeysDoNotShow: a fleetKey contains an access key. If code prints a fleetKey, the output does not show the secret.
func TestAccessKeysDoNotShow(t *testing.T) {
	k := fleetKey{key: aliyun.AccessKey{ID: testID, Secret: testSecret, SecurityToken: testToken}, region: "cn-beijing"}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		if found := leaks(fmt.Sprintf(format, k) + fmt.Sprintf(format, &k)); len(found) > 0 {
			t.Errorf("the output with %s has the secrets %q", format, found)
		}
	}
}
