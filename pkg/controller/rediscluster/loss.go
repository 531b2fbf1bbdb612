/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rediscluster

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

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

func newLoss(rdc *v1.RedisCluster, slots redisnode.Slots) *loss {
	sum := sha256.Sum256([]byte(string(rdc.UID) + " " + slots.String()))
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
