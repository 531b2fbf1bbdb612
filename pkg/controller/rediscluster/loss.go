/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rediscluster

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
)

// AnnotationAcceptDataLoss on a RedisCluster has the operator go on with slots that have
// lost what they held, if its value is the one that the condition DataLoss asks for.
// Every loss asks for another one, so that nobody accepts what they have not seen.
const AnnotationAcceptDataLoss = v1.GroupName + "/accept-data-loss"

// loss is slots whose masters and replicas are all gone for good.
type loss struct {
	slots redisnode.Slots
	token string // that accepts it
}

// newLoss is about what is lost now, or since the condition says so: the same slots, lost
// again, are another loss.
func newLoss(rdc *v1.RedisCluster, slots redisnode.Slots, now time.Time) *loss {
	if was := meta.FindStatusCondition(rdc.Status.Conditions, v1.ConditionDataLoss); was != nil && was.Status == metav1.ConditionTrue {
		now = was.LastTransitionTime.Time
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %s", rdc.UID, now.Unix(), slots))
	return &loss{slots: slots, token: hex.EncodeToString(sum[:])[:8]}
}

func (l *loss) accepted(rdc *v1.RedisCluster) bool {
	return rdc.Annotations[AnnotationAcceptDataLoss] == l.token
}

func (l *loss) message() string {
	return fmt.Sprintf("The slots %s (%d of %d) have lost what they held: the Pods of their master and its replicas are gone, and their volumes. "+
		"Bring those back, or set the annotation %s=%s to go on with these slots empty",
		l.slots, l.slots.Len(), redisnode.SlotCount, AnnotationAcceptDataLoss, l.token)
}
