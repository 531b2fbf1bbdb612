// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package must

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

const (
	password = "correct-horse/battery&staple"
	script   = "#!/bin/sh\necho hunter2IsThePassword\n"
	key      = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIIrYSSNQFaA2Hwf1duRSxKtLYX5CB04fSeQ6tF1aY/PuoAoGCCqGSM49\n" +
		"AwEHoUQDQgAEPR3tU2Fta9ktY+6P9G0cWO+0kETA6SFs38GecTyudlHz6xvCdz8q\n-----END EC PRIVATE KEY-----\n"
)

func TestInFindsEveryEncoding(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString([]byte(script))
	for name, text := range map[string]string{
		"plain":                         "AUTH " + password + " failed",
		"a short secret":                "pin 8Characs is wrong",
		"quoted":                        fmt.Sprintf("%q", script),
		"in JSON":                       `{"userData":"#!/bin/sh\necho hunter2IsThePassword\n"}`,
		"escaped in JSON":               `{"password":"correct-horse/battery\u0026staple"}`,
		"base64":                        encoded,
		"base64 for URLs":               base64.URLEncoding.EncodeToString([]byte(script)),
		"base64 in a URL":               url.QueryEscape(encoded),
		"base64 in a signed URL":        url.QueryEscape(url.QueryEscape(encoded)),
		"base64 of a longer text":       base64.StdEncoding.EncodeToString([]byte("a longer text with " + script + " in it")),
		"URL":                           "password=" + url.QueryEscape(password),
		"hexadecimal":                   fmt.Sprintf("%x", script),
		"hexadecimal in capitals":       fmt.Sprintf("%X", script),
		"Go's bytes":                    fmt.Sprintf("%v", []byte(password)),
		"Go's bytes, with %+v in a map": fmt.Sprintf("%+v", map[string][]byte{"password": []byte(password)}),
		"Go's bytes, with %#v":          fmt.Sprintf("%#v", []byte(password)),
		"a hexdump":                     hex.Dump([]byte("k8s\x00\n\x0c\n\x02v1\x12\x06Secret" + password)),
		"a hexdump in a JSON string":    strings.ReplaceAll(hex.Dump([]byte("k8s "+script)), "\n", `\n`),
		"a hexdump that is indented":    strings.ReplaceAll(hex.Dump([]byte("k8s "+script)), "\n", "\n\t"),
		"a hexdump that is cut":         hex.Dump([]byte("k8s " + password))[:150],
		"a body that is cut": `{"data":{"password":"` + base64.StdEncoding.EncodeToString([]byte(password))[:20] +
			" [truncated 100 chars]",
		"a key":                            key,
		"a key in one quoted line":         fmt.Sprintf("%q", key),
		"a key in base64":                  base64.StdEncoding.EncodeToString([]byte(key)),
		"a line of a key":                  strings.Split(key, "\n")[2],
		"a key with other line breaks":     strings.ReplaceAll(strings.ReplaceAll(key, "\n", ""), "A", "A\n  "),
		"base64 in lines of 40 characters": encoded[:40] + "\n" + encoded[40:],
	} {
		t.Run(name, func(t *testing.T) {
			secrets := Secrets{"the password": password, "the script": script, "the key": key, "the PIN": "8Characs"}
			if found := secrets.In("I1122 07:00:00 before\n" + text + "\nI1122 07:00:01 after"); len(found) != 1 {
				t.Errorf("found %d secrets in %q, want 1: %q", len(found), text, found)
			}
		})
	}
}

func TestInFindsNothingElse(t *testing.T) {
	secrets := Secrets{"the password": password, "the script": script, "the key": key, "none": ""}
	for _, text := range []string{
		"", "a horse and a battery", "-----BEGIN EC PRIVATE KEY-----", "CreateInstance: OperationDenied.NoStock: no stock (request 9D8E)",
		hex.Dump([]byte("k8s\x00 and nothing else")),
	} {
		if found := secrets.In(text); len(found) > 0 {
			t.Errorf("found %q in %q, want none", found, text)
		}
	}
}
