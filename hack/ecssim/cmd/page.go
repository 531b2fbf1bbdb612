// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	_ "embed" // for the page
	"html/template"
	"net/http"
	"slices"

	"github.com/glassback/glassback/hack/ecssim"
	"github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
)

//go:embed page.html
var pageHTML string

// page shows the instances. It loads no other files.
var page = template.Must(template.New("page").Parse(pageHTML))

// row is an instance on the page.
type row struct {
	ecssim.Instance

	State string
	Owner string
	Gone  bool
}

// maxGone is the largest number of released instances on the page.
const maxGone = 20

// rows returns the instances that exist, the newest first, and then released ones.
func rows(instances []ecssim.Instance) (shown []row, more int) {
	var gone []row
	for _, i := range slices.Backward(instances) {
		r := row{Instance: i, State: i.State, Owner: i.Tags[v1alpha1.TagObject]}
		if i.Released.IsZero() {
			shown = append(shown, r)
			continue
		}
		r.Gone, r.State = true, "Released"
		if len(gone) == maxGone {
			more++
			continue
		}
		gone = append(gone, r)
	}
	return append(shown, gone...), more
}

func servePage(w http.ResponseWriter, r *http.Request, instances []ecssim.Instance) {
	if r.URL.Path != "/" {
		http.NotFound(w, r)
		return
	}
	shown, more := rows(instances)
	var body bytes.Buffer
	if err := page.Execute(&body, map[string]any{"Instances": shown, "More": more}); err != nil {
		http.Error(w, "The page cannot be made.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	_, _ = w.Write(body.Bytes()) // An error means that the browser is gone.
}
