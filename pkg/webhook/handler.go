// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"mime"
	"net/http"
	"runtime/debug"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/descriptor"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	"github.com/glassback/glassback/pkg/kinds"
	"github.com/glassback/glassback/pkg/shares"
)

// reviewTimeout limits the request that a review sends to the API server. It is longer than timeoutSeconds of the webhook configurations:
// normally the API server gives up first and closes the connection, which cancels the review.
const reviewTimeout = 10 * time.Second

// Handler answers the admission requests of the API server, on two paths for each kind. Requests and responses are AdmissionReviews of
// admission.k8s.io/v1, in JSON. A review has the HTTP status 200, also if it denies the request. A request that would take too much memory
// gets 429 or 507 (see limits). An invalid request gets another 4xx.
type Handler struct {
	mux     http.ServeMux
	limits  *limits
	metrics MetricsOf
}

// NewHandler returns a Handler. For a request to a scale subresource, client reads the object.
func NewHandler(client versioned.Interface, metrics MetricsOf) *Handler {
	return newHandler(kinds.Custom(), client, metrics)
}

func newHandler(all iter.Seq[*descriptor.Descriptor], client versioned.Interface, metrics MetricsOf) *Handler {
	h := &Handler{limits: newLimits(), metrics: metrics}
	for d := range all {
		k := kind{d}
		h.handle("mutate", k, func(ctx context.Context, request *request) *admissionv1.AdmissionResponse {
			if request.SubResource == "scale" {
				return mutation(k.scale(ctx, client, request))
			}
			return mutation(k.mutate(request))
		})
		h.handle("validate", k, func(_ context.Context, request *request) *admissionv1.AdmissionResponse {
			return validation(k.validate(request))
		})
	}
	return h
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

type reviewFunc func(context.Context, *request) *admissionv1.AdmissionResponse

// handle registers review for one path.
func (h *Handler) handle(verb string, k kind, review reviewFunc) {
	path := Path(verb, k.GroupVersionKind)
	metrics := h.metrics.path(path)
	h.mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		start, status := time.Now(), http.StatusInternalServerError // This status is counted if serve panics.
		metrics.Started()
		defer func() { metrics.Finished(status, time.Since(start)) }()
		status = h.serve(w, r, k, review)
	})
}

// serve answers one request, and returns the HTTP status. The memory stays reserved until the response is written: a client may read
// slowly.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, k kind, review reviewFunc) int {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return refuse(w, r, &refused{
			http.StatusUnsupportedMediaType, fmt.Errorf("the Content-Type must be application/json, not %q", r.Header.Get("Content-Type")),
		})
	}
	length, from := r.ContentLength, shares.Address(r.RemoteAddr)
	if length < 0 {
		length = maxBody
	}
	if length > smallBody && length <= maxBody {
		release, reason := hold(r.Context(), h.limits.bodies, from, 2*length)
		if reason != nil {
			return refuse(w, r, reason)
		}
		defer release()
	}
	body, reason := readBody(w, r)
	if reason != nil {
		return refuse(w, r, reason)
	}
	request, reason := decodeReview(body)
	if reason != nil {
		return refuse(w, r, reason)
	}
	memory, n := h.limits.reviews, int64(reviewSize+copies*len(body)+valueSize*request.values())
	if request.SubResource == "scale" {
		memory, n = h.limits.bodies, parentSize
	}
	release, reason := hold(r.Context(), memory, from, n)
	if reason != nil {
		return refuse(w, r, reason)
	}
	defer release()
	start := time.Now()
	logger := klog.FromContext(r.Context()).WithValues("path", r.URL.Path, "operation", request.Operation,
		"object", klog.KRef(request.Namespace, request.Name))
	ctx, cancel := context.WithTimeout(klog.NewContext(r.Context(), logger), reviewTimeout)
	defer cancel()
	response := answer(ctx, k, request, review)
	response.UID = request.UID
	logger.V(4).Info("Reviewed", "allowed", response.Allowed, "patched", len(response.Patch) > 0,
		"warnings", len(response.Warnings), "dryRun", request.DryRun, "duration", time.Since(start))
	return write(ctx, w, response)
}

// answer calls review. After a panic, it returns a response with an internal error.
func answer(ctx context.Context, k kind, request *request, review reviewFunc) (response *admissionv1.AdmissionResponse) {
	defer func() {
		if r := recover(); r != nil {
			klog.FromContext(ctx).Error(fmt.Errorf("panic in review: %v", r), "Recovered from a panic", "stack", string(debug.Stack()))
			response = denial(apierrors.NewInternalError(errors.New("the review panicked, see the log of glassback")))
		}
	}()
	if !k.concerns(request) {
		return denial(apierrors.NewBadRequest(fmt.Sprintf(
			"this path is for %s of %s, but the request is for %s of %s: correct the webhook configuration",
			k.Custom.Plural, k.GroupVersion(), request.Resource.Resource,
			schema.GroupVersion{Group: request.Resource.Group, Version: request.Resource.Version})))
	}
	return review(ctx, request)
}

// concerns reports whether a request is about k.
func (k kind) concerns(request *request) bool {
	return request.Resource == metav1.GroupVersionResource{Group: k.Group, Version: k.Version, Resource: k.Custom.Plural}
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
