// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"reflect"
	"runtime/debug"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
)

// reviewTimeout limits the request that a review sends to the API server. It is longer than timeoutSeconds of the webhook configurations:
// normally the API server gives up first and closes the connection, which cancels the review.
const reviewTimeout = 10 * time.Second

// reviewShape describes the Go type of every request. account.forObjects computes from it how much memory a decoded request takes.
var reviewShape = shapeOf(reflect.TypeFor[admissionv1.AdmissionReview]())

// Handler answers the admission requests of the API server, on two paths for each kind. Requests and responses are AdmissionReviews of
// admission.k8s.io/v1, in JSON. A review has the HTTP status 200, also if it denies the request. A request that would take too much memory
// gets 429 or 507 (see limits). An invalid request gets another 4xx.
type Handler struct {
	mux    http.ServeMux
	limits *limits
}

// NewHandler returns a Handler. For a request to a scale subresource, client reads the object.
func NewHandler(client versioned.Interface) *Handler { return newHandler(kinds, client) }

func newHandler(kinds []kind, client versioned.Interface) *Handler {
	h := &Handler{limits: newLimits()}
	for _, k := range kinds {
		r := k.reviewer(k.GroupVersionKind, client)
		h.handle("mutate", k, r.shape(), func(ctx context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			return mutation(r.mutate(ctx, request))
		})
		h.handle("validate", k, r.shape(), func(_ context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			return validation(r.validate(request))
		})
	}
	return h
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

type reviewFunc func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse

// handle registers review for one path. object is the shape of the objects that review decodes.
func (h *Handler) handle(verb string, k kind, object *shape, review reviewFunc) {
	path := Path(verb, k.GroupVersionKind)
	metrics := metricsOf(path)
	h.mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		start, status := time.Now(), http.StatusInternalServerError // This status is counted if serve panics.
		metrics.Started()
		defer func() { metrics.Finished(status, time.Since(start)) }()
		status = h.serve(w, r, k, object, review)
	})
}

// serve answers one request, and returns the HTTP status. The memory stays reserved until the
// response is written: a client may read slowly.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, k kind, object *shape, review reviewFunc) int {
	memory := h.limits.account(r.RemoteAddr)
	defer memory.close()
	request, refused := read(w, r, memory, object)
	if refused != nil {
		return refuse(w, r, refused)
	}
	start := time.Now()
	logger := klog.FromContext(r.Context()).WithValues("path", r.URL.Path, "operation", request.Operation,
		"object", klog.KRef(request.Namespace, request.Name))
	ctx, cancel := context.WithTimeout(klog.NewContext(r.Context(), logger), reviewTimeout)
	defer cancel()
	response := answer(ctx, k, request, review)
	response.UID = request.UID
	logger.V(4).Info("Reviewed", "allowed", response.Allowed, "patched", len(response.Patch) > 0,
		"warnings", len(response.Warnings), "dryRun", request.DryRun != nil && *request.DryRun, "duration", time.Since(start))
	return write(ctx, w, response)
}

// answer calls review. After a panic, it returns a response with an internal error.
func answer(
	ctx context.Context, k kind, request *admissionv1.AdmissionRequest, review reviewFunc,
) (response *admissionv1.AdmissionResponse) {
	defer func() {
		if r := recover(); r != nil {
			klog.FromContext(ctx).Error(fmt.Errorf("panic in review: %v", r), "Recovered from a panic", "stack", string(debug.Stack()))
			response = denial(apierrors.NewInternalError(errors.New("the review panicked, see the log of glassback")))
		}
	}()
	if !k.concerns(request) {
		return denial(apierrors.NewBadRequest(fmt.Sprintf(
			"this path is for %s of %s, but the request is for %s of %s: correct the webhook configuration",
			k.resource, k.GroupVersion(), request.Resource.Resource,
			schema.GroupVersion{Group: request.Resource.Group, Version: request.Resource.Version})))
	}
	return review(ctx, request)
}

// concerns reports whether a request is about k.
func (k kind) concerns(request *admissionv1.AdmissionRequest) bool {
	return request.Resource == metav1.GroupVersionResource{Group: k.Group, Version: k.Version, Resource: k.resource}
}

// refuse answers a request that is not reviewed. It returns the HTTP status.
func refuse(w http.ResponseWriter, r *http.Request, reason *refused) int {
	klog.FromContext(r.Context()).V(2).Info("Refused a request",
		"path", r.URL.Path, "client", r.RemoteAddr, "status", reason.status, "err", reason.err)
	if reason.status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
		w.Header().Set("Connection", "close") // The next connection may be to another replica.
	}
	http.Error(w, reason.err.Error(), reason.status)
	return reason.status
}

// read returns the admission request in r, or the reason to refuse it.
func read(w http.ResponseWriter, r *http.Request, memory *account, object *shape) (*admissionv1.AdmissionRequest, *refused) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, &refused{
			http.StatusUnsupportedMediaType, fmt.Errorf("the Content-Type must be application/json, not %q", r.Header.Get("Content-Type")),
		}
	}
	body, refused := readBody(w, r, memory)
	if refused != nil {
		return nil, refused
	}
	if refused := memory.forObjects(r.Context(), body, object); refused != nil {
		return nil, refused
	}
	request, err := decodeReview(body)
	if err != nil {
		return nil, badRequest(err)
	}
	return request, nil
}

func badRequest(err error) *refused { return &refused{http.StatusBadRequest, err} }

// readBody reserves memory for the body of r, and reads the body.
func readBody(w http.ResponseWriter, r *http.Request, memory *account) ([]byte, *refused) {
	length, refused := memory.forBody(r.Context(), r.ContentLength)
	if refused != nil {
		return nil, refused
	}
	// The deadline is for the body only. When a deadline passes, net/http cancels the context of r. So the deadline is removed before the
	// review. An error is ignored: only an httptest.ResponseRecorder does not support deadlines.
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Now().Add(bodyTimeout))
	body := bytes.NewBuffer(make([]byte, 0, length+bytes.MinRead))
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge("the AdmissionReview has more than the allowed %d bytes (two objects of %d bytes each, and the fields around them)",
			maxBody, maxObject)
	}
	if err != nil { // The deadline stays: net/http reads the rest of the body before it sends the response.
		return nil, badRequest(fmt.Errorf("read the body: %w", err))
	}
	_ = connection.SetReadDeadline(time.Time{})
	return body.Bytes(), nil
}

// decodeReview returns the request of an AdmissionReview.
func decodeReview(body []byte) (*admissionv1.AdmissionRequest, error) {
	review := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(body, review); err != nil {
		return nil, fmt.Errorf("the body is no AdmissionReview: %w", err)
	}
	if got := review.GroupVersionKind(); got != admissionv1.SchemeGroupVersion.WithKind("AdmissionReview") {
		return nil, fmt.Errorf("the body must be an AdmissionReview of %s, not %q of %q",
			admissionv1.SchemeGroupVersion, cut(got.Kind), cut(got.GroupVersion().String()))
	}
	request := review.Request
	if request == nil || request.UID == "" {
		return nil, errors.New("the AdmissionReview has no request, or its request has no uid")
	}
	// These fields are limited, because logs and responses repeat them.
	for _, text := range []string{string(request.UID), string(request.Operation), request.Namespace, request.Name, request.SubResource,
		request.Resource.Group, request.Resource.Version, request.Resource.Resource} {
		if len(text) > maxText {
			return nil, fmt.Errorf("the uid of the request, its operation, its resource or the name of its object has more than %d bytes", maxText)
		}
	}
	return request, nil
}

// write writes the response, and returns its HTTP status.
func write(ctx context.Context, w http.ResponseWriter, response *admissionv1.AdmissionResponse) int {
	review := &admissionv1.AdmissionReview{Response: response}
	review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	body, err := marshal(review)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Could not encode a response")
		http.Error(w, "the response cannot be encoded, see the log of glassback", http.StatusInternalServerError)
		return http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(body); err != nil {
		klog.FromContext(ctx).V(2).Info("Could not send a response", "err", err)
	}
	return http.StatusOK
}

func mutation(operations []operation, err error) *admissionv1.AdmissionResponse {
	if err != nil {
		return denial(err)
	}
	response := &admissionv1.AdmissionResponse{Allowed: true}
	if len(operations) == 0 {
		return response
	}
	for _, o := range operations {
		if warning := o.warning(); warning != "" {
			response.Warnings = append(response.Warnings, warning)
		}
	}
	if response.Patch, err = marshal(operations); err != nil {
		return denial(apierrors.NewInternalError(fmt.Errorf("encode the patch: %w", err)))
	}
	patchType := admissionv1.PatchTypeJSONPatch
	response.PatchType = &patchType
	return response
}

func validation(warnings []string, err error) *admissionv1.AdmissionResponse {
	if err != nil {
		return denial(err)
	}
	return &admissionv1.AdmissionResponse{Allowed: true, Warnings: warnings}
}

// denial returns the response that denies a request because of err. It keeps the Status of an API error: kubectl prints its causes.
func denial(err error) *admissionv1.AdmissionResponse {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	result := status.Status()
	return &admissionv1.AdmissionResponse{Result: &result}
}
