// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/shares"
)

const (
	// allowedFor and deniedFor are the times for which a verdict is cached. Prometheus scrapes
	// every 15 to 60 seconds. A user who just got the permission must not wait long.
	allowedFor = time.Minute
	deniedFor  = 10 * time.Second
	// maxVerdicts limits the number of cached grants, and of cached denials: those who are denied, as often as they like, drop no grant.
	// A verdict takes 600 bytes at most: mainly a hash and a user's name.
	maxVerdicts = 1000
	// knownFor is for how long a token that was allowed needs no share of the reviews: whoever sends made-up tokens stops no scrape.
	knownFor = time.Hour
	// maxUser limits the bytes that a verdict keeps of a user's name.
	maxUser = 256
	// maxAsked limits the total length of a request's path and method, in bytes. The served paths have some 30 bytes.
	maxAsked = 256
	// maxReviews limits the number of concurrent reviews, of which an address gets its share. A share is kept for reviewEvery, which is
	// longer than a review takes, so there are 20 reviews a second at most. So a client that sends invalid tokens cannot take the API
	// server's capacity from the operator.
	maxReviews  = 8
	reviewEvery = 400 * time.Millisecond
	// reviewWait is for how long a request waits for a share.
	reviewWait = 2 * time.Second
	// reviewTimeout is the timeout of each of the two reviews.
	reviewTimeout = 5 * time.Second
)

// Protect passes a request to handler only if it has a bearer token whose user may use the path. kube creates a TokenReview, and then a
// SubjectAccessReview for the nonResourceURL with the HTTP method as the verb. Every other request gets one line with the HTTP status 401
// (no valid token), 403 (no permission), 414 (the path is too long for a review), 500 (the reviews failed), or 503 (too many reviews).
// Verdicts are cached for a short time, by a hash of token, path and method. Only the API server gets the token itself.
func Protect(handler http.Handler, kube kubernetes.Interface) http.Handler {
	return &guard{
		handler: handler, kube: kube, reviews: shares.New[netip.Addr](maxReviews),
		granted: cache.NewLRUExpireCache(maxVerdicts), denied: cache.NewLRUExpireCache(maxVerdicts),
	}
}

// guard is the handler that Protect returns.
type guard struct {
	handler http.Handler
	kube    kubernetes.Interface
	granted *cache.LRUExpireCache // the time.Time of the review, by asked.key
	denied  *cache.LRUExpireCache // verdict by asked.key
	asking  singleflight.Group    // verdict by asked.key, shared by concurrent requests
	reviews *shares.Shares[netip.Addr]
}

// asked is the content of one review.
type asked struct{ token, path, verb string }

// key returns a hash of a, which stands for a in the cache.
func (a asked) key() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", a.token, a.path, a.verb))
	return string(sum[:])
}

// verdict is an HTTP status, and the user of the token, if it is known. Verdicts are cached, so they hold no long text of a request.
type verdict struct {
	status int
	user   string
}

// ServeHTTP answers one request.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		token = ""
	}
	a := asked{strings.TrimSpace(token), r.URL.Path, strings.ToLower(r.Method)}
	answer := g.judge(r.Context(), shares.Address(r.RemoteAddr), a)
	if answer.status == http.StatusOK {
		g.handler.ServeHTTP(w, r)
		return
	}
	if answer.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	http.Error(w, a.refusal(answer), answer.status)
}

// refusal returns the line with which a request is refused.
func (a asked) refusal(answer verdict) string {
	switch answer.status {
	case http.StatusRequestURITooLong:
		return "the path is too long: none like it is served"
	case http.StatusUnauthorized:
		if a.token == "" {
			return fmt.Sprintf("there is no bearer token: use that of a ServiceAccount that may get %q", a.path)
		}
		return "the bearer token is not accepted"
	case http.StatusForbidden:
		return fmt.Sprintf("%q may not %s %q: bind a ClusterRole with this nonResourceURL to it", answer.user, a.verb, a.path)
	case http.StatusServiceUnavailable:
		return "too many tokens are looked at already: try again later"
	}
	return "the API server does not say whether this is allowed: see the log of glassback"
}

// judge returns the cached verdict, or gets one by a review. Concurrent requests with the same
// content share a review, which continues even if the first of these requests is canceled.
func (g *guard) judge(ctx context.Context, from netip.Addr, a asked) verdict {
	switch {
	case len(a.path)+len(a.verb) > maxAsked:
		return verdict{status: http.StatusRequestURITooLong}
	case a.token == "":
		return verdict{status: http.StatusUnauthorized}
	}
	key := a.key()
	answer, _, _ := g.asking.Do(key, func() (any, error) {
		if answer, ok := g.denied.Get(key); ok {
			return answer, nil
		}
		at, known := g.granted.Get(key)
		if known && time.Since(at.(time.Time)) <= allowedFor { //nolint:forcetypeassert // As added.
			return verdict{status: http.StatusOK}, nil
		}
		if !known {
			waiting, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewWait)
			defer cancel()
			if g.reviews.Acquire(waiting, from, 1) != nil {
				return verdict{status: http.StatusServiceUnavailable}, nil
			}
			begin := time.Now()
			defer func() { time.AfterFunc(reviewEvery-time.Since(begin), func() { g.reviews.Release(from, 1) }) }()
		}
		// From -v=8 on, client-go would log the request, with the token.
		silent := klog.NewContext(context.WithoutCancel(ctx), klog.Logger{})
		answer, err := g.review(silent, a)
		if err != nil {
			// An error may quote the token.
			text := strings.ReplaceAll(err.Error(), a.token, "<the token>")
			klog.FromContext(ctx).Error(nil, "Could not authorize a request", "path", a.path, "err", text)
			return verdict{status: http.StatusInternalServerError}, nil
		}
		if answer.status == http.StatusOK {
			g.granted.Add(key, time.Now(), knownFor)
		} else {
			g.granted.Remove(key)
			g.denied.Add(key, answer, deniedFor)
		}
		return answer, nil
	})
	return answer.(verdict)
}

// review gets a verdict from the API server, by two reviews.
func (g *guard) review(ctx context.Context, a asked) (verdict, error) {
	user, err := g.authenticate(ctx, a.token)
	if err != nil {
		return verdict{}, fmt.Errorf("create TokenReview: %w", err)
	}
	if user == nil {
		return verdict{status: http.StatusUnauthorized}, nil
	}
	allowed, err := g.authorize(ctx, user, a)
	if err != nil {
		return verdict{}, fmt.Errorf("create SubjectAccessReview for %q: %w", user.Username, err)
	}
	if !allowed {
		// A copy: else the verdict would keep the whole answer in memory.
		return verdict{http.StatusForbidden, strings.Clone(user.Username[:min(len(user.Username), maxUser)])}, nil
	}
	return verdict{status: http.StatusOK}, nil
}

// authenticate returns the user of a token; nil if the token is not valid.
func (g *guard) authenticate(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	review, err := g.kube.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil || !review.Status.Authenticated {
		return nil, err
	}
	return &review.Status.User, nil
}

func (g *guard) authorize(ctx context.Context, user *authenticationv1.UserInfo, a asked) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	extra := map[string]authorizationv1.ExtraValue{}
	for name, values := range user.Extra {
		extra[name] = authorizationv1.ExtraValue(values)
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: a.path, Verb: a.verb},
	}}
	review, err := g.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed && !review.Status.Denied, nil
}
