/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package loop

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/trace"
)

// maxCauses bounds the causes that are kept for one key. The first ones are
// kept: what began a burst tells more than how it went on.
const maxCauses = 8

// causes holds why each key waits. An entry exists only while its key does.
type causes struct {
	mu    sync.Mutex
	byKey map[cache.ObjectName]*pending
}

// pending is why one key waits.
type pending struct {
	causes []trace.Cause
	more   int // further causes, beyond maxCauses
}

func (c *causes) add(key cache.ObjectName, cause trace.Cause) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.byKey[key]
	if p == nil {
		p = &pending{}
		c.byKey[key] = p
	}
	if len(p.causes) == maxCauses {
		p.more++
		return
	}
	p.causes = append(p.causes, cause)
}

// take hands the causes of key over to the sync that they led to.
func (c *causes) take(key cache.ObjectName) pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.byKey[key]
	if p == nil {
		return pending{}
	}
	delete(c.byKey, key)
	return *p
}

// String renders the causes in one line, for the log.
func (p pending) String() string {
	var b strings.Builder
	for i, cause := range p.causes {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(cause.String())
	}
	if p.more > 0 {
		fmt.Fprintf(&b, "; and %d more", p.more)
	}
	return b.String()
}

type contextKey struct{}

// Causes returns why the sync that runs with ctx was started.
func Causes(ctx context.Context) []trace.Cause {
	c, _ := ctx.Value(contextKey{}).([]trace.Cause)
	return c
}
