/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
)

const (
	// maxBody is the most that a request may hold, in bytes. The API server takes
	// objects of up to 3 MiB, and sends two of them with an update.
	maxBody = 7 << 20
	// patience is how long a review may take. The API server waits for
	// timeoutSeconds, which is less.
	patience = 10 * time.Second
)

// Handler answers the API server's admission requests, AdmissionReview of
// admission.k8s.io/v1 in JSON, on two paths for each kind. A verdict has the HTTP status
// 200, also one that refuses; 4xx is for what is no such request.
type Handler struct {
	mux    http.ServeMux
	panics atomic.Int64
}

// NewHandler returns a Handler. client reads the objects that scale subresources
// belong to.
func NewHandler(client versioned.Interface) *Handler { return newHandler(kinds, client) }

func newHandler(kinds []kind, client versioned.Interface) *Handler {
	h := &Handler{}
	for _, k := range kinds {
		r := k.reviewer(k.GroupVersionKind, client)
		h.handle("mutate", k, func(ctx context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			return mutation(r.mutate(ctx, request))
		})
		h.handle("validate", k, func(_ context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			return validation(r.validate(request))
		})
	}
	return h
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// Panics returns how many reviews have panicked.
func (h *Handler) Panics() int64 { return h.panics.Load() }

type reviewFunc func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse

// handle has review answer one path.
func (h *Handler) handle(verb string, k kind, review reviewFunc) {
	path := Path(verb, k.GroupVersionKind)
	metrics := metricsOf(path)
	h.mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		start, status := time.Now(), http.StatusInternalServerError // unless it is known better
		metrics.Started()
		defer func() { metrics.Finished(status, time.Since(start)) }()
		status = h.serve(w, r, k, review)
	})
}

// serve answers one request, and returns the HTTP status.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, k kind, review reviewFunc) int {
	request, status, err := read(w, r)
	if err != nil {
		klog.FromContext(r.Context()).V(2).Info("Refused what is no admission request", "path", r.URL.Path, "status", status, "err", err)
		http.Error(w, err.Error(), status)
		return status
	}
	start := time.Now()
	logger := klog.FromContext(r.Context()).WithValues("path", r.URL.Path, "operation", request.Operation,
		"object", klog.KRef(request.Namespace, request.Name))
	ctx, cancel := context.WithTimeout(klog.NewContext(r.Context(), logger), patience)
	defer cancel()
	response := h.answer(ctx, k, request, review)
	response.UID = request.UID
	logger.V(4).Info("Reviewed", "allowed", response.Allowed, "patched", len(response.Patch) > 0,
		"warnings", len(response.Warnings), "dryRun", request.DryRun != nil && *request.DryRun, "duration", time.Since(start))
	return write(ctx, w, response)
}

// answer calls review, and makes an answer of a panic.
func (h *Handler) answer(ctx context.Context, k kind, request *admissionv1.AdmissionRequest, review reviewFunc) (response *admissionv1.AdmissionResponse) {
	defer func() {
		if r := recover(); r != nil {
			h.panics.Add(1)
			klog.FromContext(ctx).Error(fmt.Errorf("panic in review: %v", r), "Recovered from a panic", "stack", string(debug.Stack()))
			response = refusal(apierrors.NewInternalError(errors.New("the review panicked, see the log of glassback")))
		}
	}()
	if !k.concerns(request) {
		return refusal(apierrors.NewBadRequest(fmt.Sprintf("this path is for %s of %s, and not for %s of %s: correct the webhook configuration",
			k.resource, k.GroupVersion(), request.Resource.Resource, schema.GroupVersion{Group: request.Resource.Group, Version: request.Resource.Version})))
	}
	return review(ctx, request)
}

// concerns reports whether a request is about k.
func (k kind) concerns(request *admissionv1.AdmissionRequest) bool {
	return request.Resource == metav1.GroupVersionResource{Group: k.Group, Version: k.Version, Resource: k.resource}
}

// read returns the admission request in r, or the HTTP status of what is none.
func read(w http.ResponseWriter, r *http.Request) (*admissionv1.AdmissionRequest, int, error) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, http.StatusUnsupportedMediaType, fmt.Errorf("the Content-Type must be application/json, not %q", r.Header.Get("Content-Type"))
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d bytes", tooLarge.Limit)
	}
	if err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("read the body: %w", err)
	}
	review := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(body, review); err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("the body is no AdmissionReview: %w", err)
	}
	if got := review.GroupVersionKind(); got != admissionv1.SchemeGroupVersion.WithKind("AdmissionReview") {
		return nil, http.StatusBadRequest, fmt.Errorf("the body must be an AdmissionReview of %s, not %q of %q", admissionv1.SchemeGroupVersion, got.Kind, got.GroupVersion())
	}
	if review.Request == nil || review.Request.UID == "" {
		return nil, http.StatusBadRequest, errors.New("the AdmissionReview has no request, or one without a uid")
	}
	return review.Request, http.StatusOK, nil
}

// write returns the HTTP status of the answer.
func write(ctx context.Context, w http.ResponseWriter, response *admissionv1.AdmissionResponse) int {
	review := &admissionv1.AdmissionReview{Response: response}
	review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	body, err := json.Marshal(review)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Could not write an answer")
		http.Error(w, "the answer cannot be written, see the log of glassback", http.StatusInternalServerError)
		return http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(body); err != nil {
		klog.FromContext(ctx).V(2).Info("Nobody waited for the answer", "err", err)
	}
	return http.StatusOK
}

func mutation(operations []operation, err error) *admissionv1.AdmissionResponse {
	if err != nil {
		return refusal(err)
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
	if response.Patch, err = json.Marshal(operations); err != nil {
		return refusal(apierrors.NewInternalError(fmt.Errorf("write the patch: %w", err)))
	}
	patchType := admissionv1.PatchTypeJSONPatch
	response.PatchType = &patchType
	return response
}

func validation(warnings []string, err error) *admissionv1.AdmissionResponse {
	if err != nil {
		return refusal(err)
	}
	return &admissionv1.AdmissionResponse{Allowed: true, Warnings: warnings}
}

// refusal says no, as err does. kubectl prints the causes of a StatusError.
func refusal(err error) *admissionv1.AdmissionResponse {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	result := status.Status()
	return &admissionv1.AdmissionResponse{Result: &result}
}
