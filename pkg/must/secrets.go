// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package must

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Secrets are texts that no output may contain, by name.
type Secrets map[string]string

// A part of a secret is a leak too: client-go cuts long bodies. Shorter parts may occur by chance.
const (
	partLength = 16 // of the parts that are searched for, in bytes
	minLength  = 8  // of a whole secret
)

// In returns a line for each secret of which text contains a part. The line has the name of the secret, and the text around the part.
// In finds a secret in plain text, quoted, in base64 at any alignment, in hexadecimal, as Go prints bytes, escaped for a URL once or twice,
// with line breaks, and in a hexdump.
func (s Secrets) In(text string) []string {
	views := []string{text, squeeze.Replace(text), undump(text)}
	var found []string
	for _, name := range slices.Sorted(maps.Keys(s)) {
		parts := partsOf(s[name])
		for _, view := range views {
			if at := index(view, parts); at >= 0 {
				found = append(found, fmt.Sprintf("%s: …%s…", name, view[max(0, at-200):min(len(view), at+200)]))
				break
			}
		}
	}
	return found
}

// index returns the position in text of the first of the parts that text contains. It returns -1 if text contains none.
func index(text string, parts []string) int {
	for _, part := range parts {
		if at := strings.Index(text, part); at >= 0 {
			return at
		}
	}
	return -1
}

// armour matches the first and last lines of PEM data, which are not secret.
var armour = regexp.MustCompile(`-----[A-Z ]+-----\n?`)

// partsOf returns the texts to search for: parts of the secret in all encodings.
func partsOf(secret string) []string {
	secret = strings.TrimSpace(armour.ReplaceAllString(secret, ""))
	var parts []string
	for _, form := range append(forms(secret), forms(squeeze.Replace(secret))...) {
		if len(form) >= minLength && len(form) < partLength {
			parts = append(parts, form)
		}
		for ; len(form) >= partLength; form = form[partLength:] {
			parts = append(parts, form[:partLength])
		}
	}
	slices.Sort(parts)
	return slices.Compact(parts)
}

// forms returns text in all encodings.
func forms(text string) []string {
	in64 := func(e *base64.Encoding) string { return e.EncodeToString([]byte(text)) }
	all := []string{hex.EncodeToString([]byte(text)), strings.ToUpper(hex.EncodeToString([]byte(text)))}
	for _, form := range []string{text, in64(base64.StdEncoding), in64(base64.URLEncoding), in64(base64.RawStdEncoding)} {
		once := url.QueryEscape(form)
		all = append(all, form, once, url.PathEscape(form), url.QueryEscape(once), url.QueryEscape(url.PathEscape(form)))
		quoted, _ := json.Marshal(form) // A string can be marshalled.
		all = append(all, string(quoted[1:len(quoted)-1]))
	}
	// Three bytes are four characters: a secret within a longer text is aligned in one of three ways.
	for shift := range 3 {
		rest := text[min(shift, len(text)):]
		all = append(all, base64.StdEncoding.EncodeToString([]byte(rest[:len(rest)-len(rest)%3])))
	}
	// As Go prints bytes, after squeeze.
	decimal, syntax := squeeze.Replace(fmt.Sprint([]byte(text))), squeeze.Replace(fmt.Sprintf("%#v", []byte(text)))
	return append(all, strings.Trim(decimal, "[]"), strings.TrimSuffix(strings.TrimPrefix(syntax, "[]byte{"), "}"))
}

// squeeze removes the characters that divide a text into lines or elements.
var squeeze = strings.NewReplacer("\n", "", "\r", "", "\t", "", " ", "", `\n`, "", `\t`, "", `"`, "", ",", "")

// dumpLine matches a line of encoding/hex.Dump. client-go logs a protobuf body in this format.
var dumpLine = regexp.MustCompile(`[0-9a-f]{8}  ((?:[0-9a-f]{2}  ?){1,16}) *\|`)

// undump returns the bytes of all hexdumps in a text.
func undump(text string) string {
	var all []byte
	for _, line := range dumpLine.FindAllStringSubmatch(text, -1) {
		bytes, _ := hex.DecodeString(strings.ReplaceAll(line[1], " ", "")) // The expression allows nothing else.
		all = append(all, bytes...)
	}
	return string(all)
}
