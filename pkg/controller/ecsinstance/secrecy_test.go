// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/glassback/glassback/hack/ecssim"
	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/must"
)

const testToken = "CAIS+tokenOfTheOperator/NeverLogged=="

// secretTexts are the texts that must not be in any output.
var secretTexts = must.Secrets{
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

// newRepeatingWorld returns a faultyWorld in which ECS repeats the request in its answer. One account has a security token.
func newRepeatingWorld(t *testing.T, seed uint64) *faultyWorld {
	m := newFaultyWorld(t, seed)
	m.logAll, m.token = true, testToken
	m.cloud = ecssim.New(ecssim.Config{Seed: seed, Accounts: []ecssim.Account{
		{ID: testAccount, AccessKeyID: testID, AccessKeySecret: testSecret, SecurityToken: testToken},
		{ID: otherAccount, AccessKeyID: otherID, AccessKeySecret: otherSecret},
	}})
	m.trouble = 0.3
	m.cloud.SetFault(func(call ecssim.Call) ecssim.Fault {
		m.mu.Lock()
		trouble := m.trouble
		m.mu.Unlock()
		dice := m.dice.roll("repeat " + call.Action + call.AccountID + call.RegionID).Float64()
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

// TestNothingSecretGetsOut: ECS has all faults, and repeats the requests in its answers. The operator's log, events and writes have no
// secret. GLASSBACK_SEEDS=n runs so many worlds.
func TestNothingSecretGetsOut(t *testing.T) {
	for seed := range fakeapi.Seeds(t, 4, 2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newRepeatingWorld(t, seed+1)
				defer m.finish()
				m.secret("aliyun", testID, testSecret)
				m.api.Put(userData("script"))
				current := m.start()
				for n := range 4 {
					m.apply(fmt.Sprintf("hasScript-%d", n), func(e *v1alpha1.ECSInstance) {
						e.Spec.UserDataSecretRef = &v1alpha1.SecretKeyReference{Name: "script", Key: "userData"}
					})
				}
				for range 20 {
					m.actAsUser()
					m.secret("aliyun", []string{testID, otherID}[m.pick(2)], []string{testSecret, otherSecret}[m.pick(2)])
					m.pause()
					m.secret("aliyun", testID, testSecret)
					m.pause()
					current = m.disturb(current)
				}
				texts := m.outputs()
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
