// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	restfake "k8s.io/client-go/rest/fake"
)

// evicting is a clientset that also answers evictions from a RESTClient.
type evicting struct{ kubernetes.Interface }

// Evicting returns a clientset whose RESTClient of the core group executes evictions with the typed client. It supports no other requests.
func Evicting(client kubernetes.Interface) kubernetes.Interface { return evicting{client} }

func (e evicting) CoreV1() typedcorev1.CoreV1Interface { return evictingCore{e.Interface.CoreV1()} }

type evictingCore struct{ typedcorev1.CoreV1Interface }

func (c evictingCore) RESTClient() rest.Interface {
	return &restfake.RESTClient{
		NegotiatedSerializer: scheme.Codecs.WithoutConversion(), GroupVersion: corev1.SchemeGroupVersion, VersionedAPIPath: "/api/v1",
		Client: restfake.CreateHTTPClient(c.answer),
	}
}

// answer is the API server's answer to a request for an eviction.
func (c evictingCore) answer(request *http.Request) (*http.Response, error) {
	eviction := &policyv1.Eviction{}
	if err := json.NewDecoder(request.Body).Decode(eviction); err != nil {
		return nil, err
	}
	status := metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated}
	if err := c.Pods(eviction.Namespace).EvictV1(request.Context(), eviction); err != nil {
		var failed apierrors.APIStatus
		if !errors.As(err, &failed) {
			return nil, err
		}
		status = failed.Status()
	}
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	body, err := json.Marshal(status)
	return &http.Response{
		StatusCode: int(status.Code), Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}},
		Body: io.NopCloser(bytes.NewReader(body)),
	}, err
}
