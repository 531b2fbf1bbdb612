// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package lifeline

import (
	"os"
	"testing"

	"github.com/glassback/glassback/pkg/must"
)

func TestParentGone(t *testing.T) {
	tests := map[string]struct {
		parent func(t *testing.T, read, write *os.File)
		want   bool
	}{
		"a parent that dies is gone": {
			func(_ *testing.T, _, write *os.File) { write.Close() }, true},
		"a parent that detaches is not": {
			func(t *testing.T, _, write *os.File) {
				if err := Detach(write); err != nil {
					t.Error(err)
				}
			}, false},
		"a child that stops listening has not lost its parent": {
			func(_ *testing.T, read, _ *os.File) { read.Close() }, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			read, write, err := os.Pipe()
			must.Succeed(t, err)
			defer write.Close()
			defer read.Close()
			gone := make(chan bool)
			go func() { gone <- ParentGone(read) }()
			test.parent(t, read, write)
			if got := <-gone; got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
