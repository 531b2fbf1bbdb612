// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"fmt"
	"net/http"
)

// ReadOnly wraps a transport, for rest.Config.Wrap: it fails every request but GET, which is that of get, list and watch.
func ReadOnly(transport http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.Method != http.MethodGet {
			if request.Body != nil {
				request.Body.Close() // A RoundTripper closes the body, also if it fails.
			}
			return nil, fmt.Errorf("%s %s is not sent: this client only reads", request.Method, request.URL.Path)
		}
		return transport.RoundTrip(request)
	})
}
