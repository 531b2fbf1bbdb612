// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package aliyun

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
)

// maxRunes bounds a message: an event holds about a thousand bytes.
const maxRunes = 500

// shortest is the minimum length of a secret that redact searches for in codes and IDs. Keys of Alibaba Cloud are longer. A simulator's key
// "test" may be part of a code by chance.
const shortest = 8

// repeats are substrings of a request or of its signed string. A message that contains one of them repeats the request.
var repeats = []string{
	"AccessKeyId=", "AccessKeyId%", "Signature=", "Signature%", "SignatureNonce", "SecurityToken=", "SecurityToken%", "UserData=", "UserData%",
}

// redact removes the parts of a request that ECS may have repeated in an error. It is the second defence: refusal does not read the
// messages of errors that are known to repeat a request.
func (e *Error) redact(key *AccessKey, request requests.AcsRequest) {
	query := request.GetQueryParams()
	secrets := []string{
		key.ID, key.Secret, key.SecurityToken, request.GetStringToSign(), query["Signature"], query["UserData"], query["Password"],
	}
	if plain, err := base64.StdEncoding.DecodeString(query["UserData"]); err == nil {
		secrets = append(append(secrets, string(plain)), words(string(plain))...)
	}
	replacer := redactor(secrets)
	e.Message = clean(replacer.Replace(e.Message))
	for _, sign := range repeats {
		if strings.Contains(e.Message, sign) {
			e.Message = "the message of ECS is not shown, since it repeats what was signed"
		}
	}
	for _, name := range []*string{&e.Code, &e.RequestID} {
		if slices.ContainsFunc(secrets, func(s string) bool { return len(s) >= shortest && strings.Contains(*name, s) }) {
			*name = ""
		}
	}
}

// words returns the words of a script that may be secrets: a server may repeat a part of it.
func words(script string) []string {
	return slices.DeleteFunc(strings.FieldsFunc(script, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }),
		func(word string) bool {
			plain := !strings.ContainsFunc(word[min(1, len(word)):], func(r rune) bool { return !unicode.IsLower(r) })
			return len(word) < shortest || plain && len(word) < 2*shortest
		})
}

// redactor returns a Replacer for secrets in each encoding in which a server may repeat them.
func redactor(secrets []string) *strings.Replacer {
	forms := []string{}
	for _, secret := range secrets {
		if secret == "" {
			continue
		}
		// The signed string is encoded twice.
		once, path := url.QueryEscape(secret), url.PathEscape(secret)
		forms = append(forms, secret, once, path, url.QueryEscape(once), url.QueryEscape(path), clean(secret),
			base64.StdEncoding.EncodeToString([]byte(secret)), base64.URLEncoding.EncodeToString([]byte(secret)),
			base64.RawStdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)))
	}
	// The longest is first: a form may be part of another one.
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	pairs := []string{}
	for _, form := range slices.Compact(forms) {
		if form != "" {
			pairs = append(pairs, form, "[redacted]")
		}
	}
	return strings.NewReplacer(pairs...)
}

// clean joins the lines of a text, removes unprintable characters, and cuts it to maxRunes.
func clean(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	if runes := []rune(text); len(runes) > maxRunes {
		text = string(runes[:maxRunes-1]) + "…"
	}
	return text
}

// identifier returns text if it can be a code or the ID of a request, and "" otherwise.
func identifier(text string) string {
	strange := func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(".-_", r)
	}
	if len(text) > 128 || strings.ContainsFunc(text, strange) {
		return ""
	}
	return text
}
