// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"crypto/sha256"
	"encoding/json"
	"runtime"
	"sync"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// checks remembers which objects of a cache were as desired, so that an unchanged child is not compared again: a comparison costs some ten
// times as much as a checksum. An object of a cache never changes: the next version is another object. So the checks trust no timestamp
// and no resourceVersion: after etcd is restored from a backup, the same resourceVersion may belong to other fields. When the garbage
// collector frees an object, its check goes, too. The cleanups keep the checks in memory, so the checks refer to nothing else.
type checks struct {
	desired sync.Map // weak.Pointer[metav1.ObjectMeta] → checksum of the desired configuration
}

// checksum identifies a configuration by its JSON. The zero checksum belongs to none.
type checksum [sha256.Size]byte

// checksumOf returns the checksum of a configuration. It returns the zero checksum if the configuration is nil or has no JSON.
func checksumOf[A comparable](configuration A) checksum {
	var none A
	if configuration == none {
		return checksum{}
	}
	data, err := json.Marshal(configuration)
	if err != nil {
		return checksum{}
	}
	return sha256.Sum256(data)
}

// of returns the checksum of the configuration that object was as; the zero checksum if it was not compared, or differed.
func (c *checks) of(object metav1.ObjectMetaAccessor) checksum {
	sum, _ := c.desired.Load(identity(object))
	known, _ := sum.(checksum)
	return known
}

// remember records that object is as the configuration with a checksum. It ignores the zero checksum.
func (c *checks) remember(object metav1.ObjectMetaAccessor, desired checksum) {
	if desired == (checksum{}) {
		return
	}
	key := identity(object)
	if _, known := c.desired.Swap(key, desired); !known {
		runtime.AddCleanup(object.GetObjectMeta().(*metav1.ObjectMeta), func(key any) { c.desired.Delete(key) }, any(key))
	}
}

func (c *checks) forget(object metav1.ObjectMetaAccessor) { c.desired.Delete(identity(object)) }

// identity returns a key for an object in memory, which does not keep it there.
func identity(object metav1.ObjectMetaAccessor) weak.Pointer[metav1.ObjectMeta] {
	return weak.Make(object.GetObjectMeta().(*metav1.ObjectMeta))
}
