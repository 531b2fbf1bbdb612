// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecssim

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	// maxBody is larger than any request that ECS accepts.
	maxBody = 1 << 20
	// maxSkew is the largest difference between a timestamp and the server's clock.
	maxSkew = 15 * time.Minute
	// nonceLife is the time for which a repeated request could have a valid timestamp: at its first arrival, the timestamp may be ahead by
	// maxSkew.
	nonceLife = 2 * maxSkew

	timestampFormat = "2006-01-02T15:04:05Z"
)

// request is a parsed request.
type request struct {
	host   string
	params params   // all but those of the following fields
	names  []string // of all parameters, sorted

	accessKeyID   string
	securityToken string
	signature     string
	userData      string
	toSign        string
	password      bool // there is a Password
	fingerprint   fingerprint
}

// params are the parameters of a call: one value for each name, none of them empty.
type params url.Values

func (p params) get(name string) string { return url.Values(p).Get(name) }

// parse parses a request.
func parse(r *http.Request) (*request, *problem) {
	req := &request{host: cmp.Or(r.Host, r.URL.Host)}
	if r.Method != http.MethodGet && r.Method != http.MethodPost {
		return req, &problem{http.StatusMethodNotAllowed, "UnsupportedHTTPMethod", "This http method is not supported."}
	}
	if r.URL.Path != "/" && r.URL.Path != "" {
		return req, &problem{http.StatusNotFound, "InvalidAction.NotFound", "Specified api is not found, please check your url and method."}
	}
	all, p := parameters(r)
	if p != nil {
		return req, p
	}
	for name, values := range all {
		if len(values) != 1 {
			return req, badRequest("InvalidParameter", "The parameter \""+name+"\" is given more than once.")
		}
	}
	req.take(r.Method, all)
	return req, nil
}

// parameters returns the parameters of the query and of the form.
func parameters(r *http.Request) (url.Values, *problem) {
	malformed := badRequest("InvalidParameter", "The parameters are not well-formed.")
	all, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, malformed
	}
	if r.Body == nil {
		return all, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, &problem{http.StatusRequestEntityTooLarge, "RequestEntityTooLarge", "The request is too large."}
	}
	if err != nil {
		return nil, malformed
	}
	if len(body) == 0 || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		return all, nil
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, malformed
	}
	for name, values := range form {
		all[name] = append(all[name], values...)
	}
	return all, nil
}

// take stores the parameters. It stores secrets in fields of their own.
func (r *request) take(method string, all url.Values) {
	r.names = slices.Sorted(maps.Keys(all))
	r.toSign = stringToSign(method, all)
	r.params = params(all)
	if r.params.get("ClientToken") != "" {
		r.fingerprint = fingerprintOf(all)
	}
	r.password = r.params.get("Password") != ""
	r.accessKeyID, r.securityToken = r.params.get("AccessKeyId"), r.params.get("SecurityToken")
	r.signature, r.userData = r.params.get("Signature"), r.params.get("UserData")
	for _, name := range []string{"AccessKeyId", "SecurityToken", "Signature", "UserData", "Password"} {
		delete(all, name)
	}
	for name, values := range all {
		if values[0] == "" {
			delete(all, name) // An empty parameter counts as missing, although it is signed.
		}
	}
}

// stringToSign returns the string to sign, made of all parameters but the signature
// (https://www.alibabacloud.com/help/en/sdk/product-overview/rpc-mechanism).
func stringToSign(method string, all url.Values) string {
	signed := maps.Clone(all)
	delete(signed, "Signature")
	return method + "&%2F&" + url.QueryEscape(percentEncoded(signed.Encode()))
}

// percentEncoded changes an encoded query to RFC 3986, which encodes a space as %20.
func percentEncoded(query string) string { return strings.ReplaceAll(query, "+", "%20") }

// sign returns the signature of a string to sign.
func sign(toSign, secret string) string {
	mac := hmac.New(sha1.New, []byte(secret+"&"))
	mac.Write([]byte(toSign)) // It never fails.
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

type nonceKey struct{ accessKeyID, nonce string }

// authenticate returns the account that sent the request. clock is the time of the server's clock.
func (s *Server) authenticate(r *request, now, clock time.Time) (Account, *problem) {
	if r.accessKeyID == "" {
		return Account{}, missing("AccessKeyId")
	}
	account, found := s.accounts[r.accessKeyID]
	if !found || r.securityToken == "" && account.SecurityToken != "" { // A temporary key is not valid without its token.
		return Account{}, badRequest("InvalidAccessKeyId.NotFound", "Specified access key is not found.")
	}
	if p := r.checkToken(account); p != nil {
		return account, p
	}
	if p := r.checkSignature(account); p != nil {
		return account, p
	}
	if p := r.checkTimestamp(clock); p != nil {
		return account, p
	}
	nonce := nonceKey{r.accessKeyID, r.params.get("SignatureNonce")}
	if nonce.nonce == "" {
		return account, missing("SignatureNonce")
	}
	if _, used := s.nonces.get(nonce, now); used {
		return account, badRequest("SignatureNonceUsed", "Specified signature nonce was used already.")
	}
	s.nonces.put(nonce, struct{}{}, now)
	return account, nil
}

func (r *request) checkToken(account Account) *problem {
	switch {
	case hmac.Equal([]byte(r.securityToken), []byte(account.SecurityToken)):
		return nil
	case strings.Contains(r.securityToken, "expired"):
		return badRequest("InvalidSecurityToken.Expired", "Specified SecurityToken is expired.")
	case strings.Contains(r.securityToken, "malformed"):
		return badRequest("InvalidSecurityToken.Malformed", "Specified SecurityToken is malformed.")
	default:
		return badRequest("InvalidSecurityToken.MismatchWithAccessKey", "Specified SecurityToken mismatch with the AccessKey.")
	}
}

// checkSignature checks the signature of the request. If the signature is wrong, the error
// contains the string to sign, with the secrets in it, as the error of ECS does.
func (r *request) checkSignature(account Account) *problem {
	switch {
	case r.params.get("SignatureMethod") != "HMAC-SHA1" || r.params.get("SignatureVersion") != "1.0":
		return badRequest("InvalidSignatureMethod", "Specified signature method or version is not valid.")
	case r.signature == "":
		return badRequest("IncompleteSignature",
			"The request signature does not conform to Aliyun standards. server string to sign is:"+r.toSign)
	case !hmac.Equal([]byte(r.signature), []byte(sign(r.toSign, account.AccessKeySecret))):
		return badRequest("SignatureDoesNotMatch",
			"Specified signature is not matched with our calculation. server string to sign is:"+r.toSign)
	default:
		return nil
	}
}

func (r *request) checkTimestamp(clock time.Time) *problem {
	text := r.params.get("Timestamp")
	if text == "" {
		return missing("Timestamp")
	}
	at, err := time.Parse(timestampFormat, text)
	if err != nil {
		return badRequest("IllegalTimestamp",
			"The input parameter \"Timestamp\" that is mandatory for processing this request is not supplied.")
	}
	if clock.Sub(at).Abs() > maxSkew {
		return badRequest("InvalidTimeStamp.Expired", "Specified time stamp or date value is expired.")
	}
	return nil
}
