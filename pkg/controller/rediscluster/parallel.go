// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// goroutines runs functions in goroutines of their own. It raises the first panic of them again in the goroutine that calls wait, which
// may recover from it. In any other goroutine, the panic would end the process.
type goroutines struct {
	running sync.WaitGroup
	once    sync.Once
	panic   error // wraps the value of the panic if that is an error, and has the stack
}

func (g *goroutines) run(f func()) {
	g.running.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				err, ok := p.(error)
				if !ok {
					err = fmt.Errorf("%v", p)
				}
				g.once.Do(func() { g.panic = fmt.Errorf("%w\n%s", err, debug.Stack()) })
			}
		}()
		f()
	})
}

func (g *goroutines) wait() {
	g.running.Wait()
	if g.panic != nil {
		panic(g.panic)
	}
}

// inParallel calls do for all members at once, and returns the errors.
func inParallel(members []*member, do func(*member) error) error {
	var calls goroutines
	errs := make([]error, len(members))
	for i, m := range members {
		calls.run(func() {
			if err := do(m); err != nil {
				errs[i] = fmt.Errorf("%s: %w", m.Name, err)
			}
		})
	}
	calls.wait()
	return errors.Join(errs...)
}
