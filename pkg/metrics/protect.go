/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package metrics

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

const (
	// How long a verdict holds: Prometheus comes every 15 to 60 seconds, and who has just
	// been given the right does not want to wait.
	allowedFor = time.Minute
	deniedFor  = 10 * time.Second
	// maxVerdicts bounds what is remembered. Each takes 600 bytes at most: a hash, and maxUser.
	maxVerdicts = 1000
	// maxUser bounds how much is kept of a user's name, in bytes.
	maxUser = 256
	// maxAsked bounds the path and the method of a request together, in bytes. The paths that are
	// served have some 30.
	maxAsked = 256
	// maxReviews is how many are asked for at a time: whoever sends tokens of their own making
	// does not keep the API server from answering the operator.
	maxReviews = 8
	// reviewTimeout is for each of the two reviews.
	reviewTimeout = 5 * time.Second
)

// Protect lets through to handler only those with a bearer token whose user the API server
// lets use the path: kube creates a TokenReview, and then a SubjectAccessReview for the
// nonResourceURL, with the HTTP method for a verb. Everybody else gets one line, with the
// HTTP status 401 (no token, or none that is good), 403 (no right), 414 (the path is too long to
// ask for), 500 (the API server did not say), or 503 (too many ask at once). Verdicts are
// cached for a moment, by a hash of token, path and method; the token itself goes to the API
// server alone.
func Protect(handler http.Handler, kube kubernetes.Interface) http.Handler {
	return &guard{handler: handler, kube: kube, verdicts: cache.NewLRUExpireCache(maxVerdicts), reviews: make(chan struct{}, maxReviews)}
}

// guard is what Protect returns.
type guard struct {
	handler  http.Handler
	kube     kubernetes.Interface
	verdicts *cache.LRUExpireCache // verdict by asked.key
	asking   singleflight.Group    // the same, for those who come at once
	reviews  chan struct{}         // one for each that is asked for now
}

// asked is what the API server is asked.
type asked struct{ token, path, verb string }

// key stands for what is asked where it is remembered.
func (a asked) key() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", a.token, a.path, a.verb))
	return string(sum[:])
}

// verdict is an HTTP status, and whose token it was, if that is known. A verdict is remembered:
// what a request has said at length is no part of it.
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
	said := g.judge(r.Context(), a)
	if said.status == http.StatusOK {
		g.handler.ServeHTTP(w, r)
		return
	}
	if said.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	http.Error(w, a.refusal(said), said.status)
}

// refusal returns the line by which a request is refused.
func (a asked) refusal(said verdict) string {
	switch said.status {
	case http.StatusRequestURITooLong:
		return "the path is too long: none like it is served"
	case http.StatusUnauthorized:
		if a.token == "" {
			return fmt.Sprintf("there is no bearer token: use that of a ServiceAccount that may get %q", a.path)
		}
		return "the bearer token is not accepted"
	case http.StatusForbidden:
		return fmt.Sprintf("%q may not %s %q: a ClusterRole with this nonResourceURL, bound to it, lets it", said.user, a.verb, a.path)
	case http.StatusServiceUnavailable:
		return "too many tokens are looked at already: try again later"
	}
	return "the API server does not say whether this is allowed: see the log of glassback"
}

// judge returns the verdict that is remembered, or asks for one: once for all that want to
// know the same, and so also if the first of them goes away.
func (g *guard) judge(ctx context.Context, a asked) verdict {
	switch {
	case len(a.path)+len(a.verb) > maxAsked:
		return verdict{status: http.StatusRequestURITooLong}
	case a.token == "":
		return verdict{status: http.StatusUnauthorized}
	}
	key := a.key()
	said, _, _ := g.asking.Do(key, func() (any, error) {
		if said, ok := g.verdicts.Get(key); ok {
			return said, nil
		}
		select {
		case g.reviews <- struct{}{}:
			defer func() { <-g.reviews }()
		default:
			return verdict{status: http.StatusServiceUnavailable}, nil
		}
		// From -v=8 on, client-go logs what goes over the wire: the token.
		silent := klog.NewContext(context.WithoutCancel(ctx), klog.Logger{})
		said, err := g.review(silent, a)
		if err != nil {
			// An error may quote what was asked.
			text := strings.ReplaceAll(err.Error(), a.token, "<the token>")
			klog.FromContext(ctx).Error(nil, "Could not find out who may see the metrics", "path", a.path, "err", text)
			return verdict{status: http.StatusInternalServerError}, nil
		}
		if said.status == http.StatusOK {
			g.verdicts.Add(key, said, allowedFor)
		} else {
			g.verdicts.Add(key, said, deniedFor)
		}
		return said, nil
	})
	return said.(verdict)
}

// review asks the API server.
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
		// A copy: the name is part of the whole answer.
		return verdict{http.StatusForbidden, strings.Clone(user.Username[:min(len(user.Username), maxUser)])}, nil
	}
	return verdict{status: http.StatusOK}, nil
}

// authenticate returns whose token it is, nil if it is not good.
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
