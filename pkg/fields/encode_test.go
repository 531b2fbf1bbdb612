// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/glassback/glassback/pkg/must"
)

// TestEncodeIsJSON compares with encoding/json: apart from texts, and from what is left out, both have the same.
func TestEncodeIsJSON(t *testing.T) {
	for _, example := range slices.Concat(own, recorded) {
		n := 0
		filled := fill(example, func() string { n++; return fmt.Sprintf("text <%d> & \"ü\"", n) })
		for _, value := range []any{filled, example} {
			want, err := json.Marshal(value)
			must.Succeed(t, err)
			got := encodeWith(value, func(text string) string { return text })
			if a, b := tree(t, got), tree(t, want); !reflect.DeepEqual(a, b) {
				t.Errorf("%T: got\n%s\nwant\n%s", value, got, want)
			}
		}
	}
}

// tree decodes an object, without what is left out.
func tree(t *testing.T, text []byte) any {
	t.Helper()
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return prune(value)
}

func prune(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, child := range value {
			if slices.Contains(omitted, key) || key == lastApplied || key == "caBundle" {
				delete(value, key)
				continue
			}
			value[key] = prune(child)
		}
	case []any:
		for i := range value {
			value[i] = prune(value[i])
		}
	}
	return value
}

func TestTokens(t *testing.T) {
	type labelled struct {
		Tags map[string]string `json:"tags"`
	}
	var got [2]labelled
	for i := range got {
		text := Encode(labelled{map[string]string{"a": "secret", "b": "secret", "c": "another", "d": "", "glassback.dev/uid": "shown"}})
		if err := json.Unmarshal(text, &got[i]); err != nil || strings.Contains(string(text), "secret") {
			t.Fatalf("error %v, %s", err, text)
		}
	}
	tags := got[0].Tags
	if tags["a"] != tags["b"] || tags["a"] == tags["c"] || tags["d"] != "" || tags["glassback.dev/uid"] != "shown" ||
		!isToken(tags["a"]) || !reflect.DeepEqual(got[0], got[1]) {
		t.Errorf("got %v", got)
	}
	if again := string(EncodeAgain(labelled{map[string]string{"a": tags["a"], "b": "new"}})); again !=
		`{"tags":{"a":"`+tags["a"]+`","b":"redacted"}}` {
		t.Errorf("of tokens: %s", again)
	}
	if Digest("secret") == "sha256:"+strings.TrimPrefix(tags["a"], "redacted-") {
		t.Error("a token has no key")
	}
}

func TestBytesAreLeftOut(t *testing.T) {
	got := Encode(&corev1.Secret{Data: map[string][]byte{"password": []byte("secret")}, StringData: map[string]string{"token": "secret"}})
	if want := `"data":{"password":null},"stringData":{"token":"` + token("secret") + `"}`; !strings.Contains(string(got), want) {
		t.Errorf("got %s, want %s", got, want)
	}
}
