// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"fmt"
	"slices"
	"time"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/redisnode/redistest"
)

// The functions below build observed values: cluster builds a healthy one. The function with changes it by alters, and sets the fields
// that a sync computes from the others.
//
// The member with the ordinal 2 is the Pod demo-2 at 10.1.0.2 on machine-2, and its node
// is id-2.

// seenAt is the time of the observation.
var seenAt = time.Date(2026, 1, 9, 13, 50, 0, 0, time.UTC)

// part is the role of a member in its cluster.
type part struct {
	slots    redisnode.Slots
	masterOf int  // the ordinal of its master; -1 if it is a master itself
	lone     bool // whether it knows no other node
}

// master is the part of a master with slots such as "0-5460".
func master(slots string) part { return part{slots: slotsOf(slots), masterOf: -1} }

// replica is the part of a replica of the member with the ordinal.
func replica(of int) part { return part{masterOf: of} }

// newcomer is the part of a node that has just started and is not in the cluster.
func newcomer() part { return part{masterOf: -1, lone: true} }

func slotsOf(text string) redisnode.Slots {
	slots, err := redistest.ParseSlots(text)
	if err != nil {
		panic(err)
	}
	return slots
}

// sixOf returns three masters, and then their replicas.
func sixOf() []part {
	return []part{master("0-5460"), master("5461-10922"), master("10923-16383"), replica(0), replica(1), replica(2)}
}

// six is a formed cluster of the default size.
func six() *observed { return cluster(sixOf()...) }

// sixAnd is six with more members.
func sixAnd(more ...part) *observed { return cluster(append(sixOf(), more...)...) }

// cluster is a formed cluster of these members, by ordinal. Every member has a Pod and answers. The tables of all members agree, except
// those of newcomers.
func cluster(parts ...part) *observed {
	rdc := &v1.RedisCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: "default", UID: "demo-uid", Generation: 1},
		Spec:       v1.RedisClusterSpec{Addr: "10.0.0.1:6379", Size: ptr.To(int32(len(parts)))},
	}
	rdc.Default()
	rdc.Spec.Size = ptr.To(int32(len(parts))) // Default may raise the size, but tests use as few as three members.
	o := &observed{Object: rdc, Now: seenAt, Formed: true}
	for ordinal, p := range parts {
		m := &member{Name: manifest.PodName(rdc, ordinal), Ordinal: ordinal, Pod: podAt(rdc, ordinal)}
		m.View = &redisnode.View{
			ID: idOf(ordinal), Version: "7.2.4", StateOK: !p.lone, Epoch: int64(len(parts)),
			Master: p.masterOf < 0, LinkUp: p.masterOf >= 0, Offset: 1000, Unwritten: p.masterOf < 0 && len(p.slots) == 0,
		}
		if !p.lone && (p.masterOf >= 0 || len(p.slots) > 0) {
			m.View.Keys = 10
		}
		for other, q := range parts {
			if other != ordinal && (p.lone || q.lone) {
				continue
			}
			m.View.Table = append(m.View.Table, entryFor(q, other, other == ordinal))
		}
		o.Members = append(o.Members, m)
		if !p.lone {
			rdc.Status.Nodes = append(rdc.Status.Nodes, v1.Node{Pod: m.Name, ID: idOf(ordinal), IP: m.ip()})
		}
	}
	return o
}

func idOf(ordinal int) string { return fmt.Sprintf("id-%d", ordinal) }

func ipOf(ordinal int) string { return fmt.Sprintf("10.1.0.%d", ordinal) }

func entryFor(p part, ordinal int, myself bool) redisnode.Entry {
	e := redisnode.Entry{
		ID: idOf(ordinal), IP: ipOf(ordinal), Port: 6379, BusPort: 16379,
		Myself: myself, Connected: true, Master: p.masterOf < 0, Epoch: int64(ordinal + 1), Slots: p.slots,
	}
	switch {
	case p.masterOf >= 0:
		e.MasterID, e.Epoch = idOf(p.masterOf), int64(p.masterOf+1)
	case p.lone:
		e.Epoch = 0
	}
	return e
}

// podAt is a Pod that is running and ready.
func podAt(rdc *v1.RedisCluster, ordinal int) *corev1.Pod {
	p := manifest.Pod(rdc, ordinal)
	p.UID = types.UID("uid-" + p.Name)
	p.Spec.NodeName = fmt.Sprintf("machine-%d", ordinal)
	p.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: ipOf(ordinal),
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	return p
}

// alter is a change of the observation of a cluster.
type alter func(*observed)

// with changes an observation, sets the fields that a sync computes from the others, and returns it. Nodes without a Pod have been
// without one for an hour.
func with(o *observed, alters ...alter) *observed {
	for _, a := range alters {
		a(o)
	}
	o.markOutdated()
	o.identify()
	o.merge()
	for _, n := range o.unknownNodes() {
		n.UnknownFor, n.UnreachableFor, n.LossSeen = duration(time.Hour), duration(time.Hour), true
	}
	(&session{linked: map[string]link{}}).recordLinks(o)
	o.UnassignedFor = duration(time.Hour)
	return o
}

// since sets how long nodes have been without a Pod.
func since(suspect time.Duration, o *observed) *observed {
	for _, n := range o.unknownNodes() {
		n.UnknownFor = duration(suspect)
	}
	return o
}

// unwitnessed is an observation of an operator that started after the nodes had lost their Pods.
func unwitnessed(o *observed) *observed {
	for _, n := range o.unknownNodes() {
		n.UnknownFor, n.UnreachableFor, n.LossSeen = duration(minPatience), duration(minPatience), false
	}
	return o
}

// each calls f with the entry for a node in the table of every other node.
func each(o *observed, id string, f func(e *redisnode.Entry)) {
	for _, m := range o.Members {
		if m.View == nil || m.View.ID == id {
			continue
		}
		for i := range m.View.Table {
			if e := &m.View.Table[i]; e.ID == id {
				f(e)
			}
		}
	}
}

// saidBy returns the entry for a node in the table of a member. The node can be the member itself.
func saidBy(o *observed, ordinal int, id string) *redisnode.Entry {
	table := o.Members[ordinal].View.Table
	return &table[slices.IndexFunc(table, func(e redisnode.Entry) bool { return e.ID == id })]
}

// failedByAll marks a node as failed in the tables of all other nodes.
func failedByAll(o *observed, id string) {
	each(o, id, func(e *redisnode.Entry) { e.Connected, e.Failed = false, true })
}

// silenced makes members silent for this long. The other nodes have not noticed it.
func silenced(lasts time.Duration, ordinals ...int) alter {
	return changed(func(m *member) { m.View, m.WhySilent, m.SilentFor = nil, "connection refused", duration(lasts) }, ordinals...)
}

// noPod removes Pods. All other nodes report them as failed. The volumes keep their data.
func noPod(ordinals ...int) alter {
	return func(o *observed) {
		for _, i := range ordinals {
			m := o.Members[i]
			m.Pod, m.View, m.WhySilent, m.SilentFor = nil, nil, "there is no Pod", duration(time.Second)
			failedByAll(o, idOf(i))
		}
	}
}

// renewed replaces Pods by new ones without their data.
func renewed(ordinals ...int) alter {
	return func(o *observed) {
		for _, i := range ordinals {
			m := o.Members[i]
			failedByAll(o, idOf(i))
			m.Pod.UID, m.Pod.Status.PodIP = types.UID("new-"+m.Name), fmt.Sprintf("10.1.1.%d", i)
			m.Claim = nil
			if o.Object.Spec.Storage != nil {
				m.Claim = claimAt(o.Object, i)
				m.Claim.UID = types.UID("new-" + m.Claim.Name)
			}
			e := entryFor(newcomer(), i, true)
			e.ID, e.IP = fmt.Sprintf("new-%d", i), m.ip()
			m.WhySilent, m.View = "", &redisnode.View{ID: e.ID, Version: "7.2.4", Master: true, Unwritten: true, Table: []redisnode.Entry{e}}
		}
	}
}

// claimed makes a replica claim the slots of its master, after renewed, with the same epoch. So the other nodes do not accept the claim.
func claimed(was, by int) alter {
	return func(o *observed) {
		o.Members[by].View.Master, o.Members[by].View.LinkUp = true, false
		lost, own := saidBy(o, by, idOf(was)), saidBy(o, by, idOf(by))
		own.Master, own.MasterID, own.Slots, own.Epoch, lost.Slots = true, "", lost.Slots, lost.Epoch, nil
		each(o, idOf(by), func(e *redisnode.Entry) { e.Master, e.MasterID, e.Epoch = true, "", lost.Epoch })
	}
}

// takenOver makes a replica the master, after renewed or noPod.
func takenOver(was, by int) alter {
	return func(o *observed) {
		slots := redisnode.Slots(nil)
		o.Members[by].View.Master, o.Members[by].View.LinkUp = true, false
		each(o, idOf(was), func(e *redisnode.Entry) { slots, e.Slots = slots.Union(e.Slots), nil })
		become := func(e *redisnode.Entry) {
			e.Master, e.MasterID, e.Slots, e.Epoch = true, "", slots, 100+int64(by)
		}
		each(o, idOf(by), become)
		become(saidBy(o, by, idOf(by)))
	}
}

// known adds a node without a Pod to the tables of members.
func known(id string, alive bool, slots string, ordinals ...int) alter {
	return viewed(func(v *redisnode.View) {
		v.Table = append(v.Table, redisnode.Entry{
			ID: id, IP: "10.9.9.9", Port: 6379, BusPort: 16379, Master: true, Epoch: 50, Slots: slotsOf(slots),
			Connected: alive, Failed: !alive,
		})
	}, ordinals...)
}

// elsewhere puts an earlier address of a member into the tables of other members.
func elsewhere(ordinal int, by ...int) alter {
	return func(o *observed) {
		for _, i := range by {
			saidBy(o, i, idOf(ordinal)).IP = "10.1.7.7"
		}
	}
}

// greeted starts a handshake between two members.
func greeted(by, ordinal int) alter {
	return func(o *observed) {
		v := o.Members[by].View
		v.Table = append(v.Table, redisnode.Entry{ID: "handshake", IP: ipOf(ordinal), Port: 6379, BusPort: 16379, Handshake: true})
	}
}

// forgotten removes a node from the tables of members.
func forgotten(id string, by ...int) alter {
	return viewed(func(v *redisnode.View) {
		v.Table = slices.DeleteFunc(v.Table, func(e redisnode.Entry) bool { return e.ID == id && !e.Myself })
	}, by...)
}

// missed makes one member report that another one is not connected.
func missed(ordinal, by int) alter {
	return func(o *observed) { saidBy(o, by, idOf(ordinal)).Connected = false }
}

func linkDown(ordinals ...int) alter {
	return viewed(func(v *redisnode.View) { v.LinkUp = false }, ordinals...)
}

// asks takes the link away from replicas. They ask for the data of their masters at an IP.
func asks(ip string, ordinals ...int) alter {
	return viewed(func(v *redisnode.View) { v.LinkUp, v.MasterIP = false, ip }, ordinals...)
}

// unlinked takes the link away from replicas. It sets how long the link has been down; a negative duration means since the node started.
func unlinked(lasts time.Duration, offset int64, ordinals ...int) alter {
	return viewed(func(v *redisnode.View) { v.LinkUp, v.LinkDown, v.Offset = false, lasts, offset }, ordinals...)
}

// changed changes members.
func changed(f func(*member), ordinals ...int) alter {
	return func(o *observed) {
		for _, i := range ordinals {
			f(o.Members[i])
		}
	}
}

// viewed changes the views of members.
func viewed(f func(*redisnode.View), ordinals ...int) alter {
	return changed(func(m *member) { f(m.View) }, ordinals...)
}

// podIs changes Pods.
func podIs(f func(*corev1.Pod), ordinals ...int) alter {
	return changed(func(m *member) { f(m.Pod) }, ordinals...)
}

func old(p *corev1.Pod)          { p.Annotations[manifest.AnnotationRevision] = "before" }
func unready(p *corev1.Pod)      { p.Status.Conditions = nil }
func beingDeleted(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.NewTime(seenAt)) }
func finished(p *corev1.Pod)     { p.Status.Phase = corev1.PodFailed }
func unstarted(p *corev1.Pod)    { p.Status.Phase, p.Status.PodIP = corev1.PodPending, "" }

// crash is the status of a container in CrashLoopBackOff.
func crash(name string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
		Reason: "CrashLoopBackOff", Message: "back-off 10s",
	}}}
}

func crashing(p *corev1.Pod) {
	p.Status.ContainerStatuses = []corev1.ContainerStatus{crash(manifest.ContainerName)}
}

// blocked makes the container redis wait for an init container.
func blocked(p *corev1.Pod) {
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{crash("init")}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: manifest.ContainerName, State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"},
	}}}
}

// sidecarsCrashing lets the container redis run, while the two other containers of the Pod are in CrashLoopBackOff.
func sidecarsCrashing(p *corev1.Pod) {
	p.Status.Phase = corev1.PodPending
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{crash("sidecar")}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{crash("exporter"), {Name: "redis", Ready: true, State: corev1.ContainerState{
		Running: &corev1.ContainerStateRunning{},
	}}}
}

// rejecting makes the API server reject new Pods.
func rejecting(o *observed) { o.Rejection = "demo-0 stays, since the API server rejects its new Pod" }

// both returns a function that makes all of these changes.
func both(changes ...func(*corev1.Pod)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, change := range changes {
			change(p)
		}
	}
}

// unreadyForLong marks members as not ready for an hour, which is too long.
func unreadyForLong(ordinals ...int) alter {
	return changed(func(m *member) { m.UnreadyFor = duration(time.Hour) }, ordinals...)
}

// allOld gives all Pods an outdated revision.
func allOld(o *observed) {
	for _, m := range o.Members {
		old(m.Pod)
	}
}

// on assigns Pods to a machine.
func on(machine string, ordinals ...int) alter {
	return podIs(func(p *corev1.Pod) { p.Spec.NodeName = machine }, ordinals...)
}

// stored gives every Pod a volume. It must be the first change, since it sets the revisions.
func stored(o *observed) {
	o.Object.Spec.Storage = &v1.Storage{Size: resource.MustParse("1Gi")}
	for i, m := range o.Members {
		m.Claim = claimAt(o.Object, i)
		m.Pod.Annotations[manifest.AnnotationRevision] = manifest.Revision(o.Object)
	}
}

func claimAt(rdc *v1.RedisCluster, ordinal int) *corev1.PersistentVolumeClaim {
	c := manifest.Claim(rdc, ordinal)
	c.UID = types.UID("uid-" + c.Name)
	c.Spec.VolumeName = "volume-" + c.Name
	return c
}

// unbound takes the volumes away from claims, as if these had never been bound.
func unbound(ordinals ...int) alter {
	return changed(func(m *member) { m.Claim.Spec.VolumeName = "" }, ordinals...)
}

// unscheduled makes a Pod one that is not scheduled to a machine.
func unscheduled(p *corev1.Pod) {
	unstarted(p)
	p.Spec.NodeName = ""
}

// terminating marks volumes as being deleted, while their Pods still exist.
func terminating(ordinals ...int) alter {
	return changed(func(m *member) { m.Claim.DeletionTimestamp = ptr.To(metav1.NewTime(seenAt)) }, ordinals...)
}

// spec changes the spec. Pods with the present revision get the new revision.
func spec(f func(*v1.RedisClusterSpec)) alter {
	return func(o *observed) {
		f(&o.Object.Spec)
		for _, m := range o.Members {
			if m.Pod != nil && m.Pod.Annotations[manifest.AnnotationRevision] != "before" {
				m.Pod.Annotations[manifest.AnnotationRevision] = manifest.Revision(o.Object)
			}
		}
	}
}

// sized sets spec.size.
func sized(n int32) alter {
	return spec(func(s *v1.RedisClusterSpec) { s.Size = &n })
}

// replicas sets spec.replicasPerMaster.
func replicas(n int32) alter {
	return spec(func(s *v1.RedisClusterSpec) { s.ReplicasPerMaster = &n })
}

// moving marks slots as migrating on their owner. If both is true, it also marks them as importing on the target.
func moving(slots string, from, to int, both bool) alter {
	return func(o *observed) {
		saidBy(o, from, idOf(from)).Migrating = slotMarks(slots, to)
		if both {
			expecting(slots, to, from)(o)
		}
	}
}

// notMoved has the first attempt to move a slot fail some time ago.
func notMoved(slot int, ago time.Duration) alter {
	return func(o *observed) { o.Moves = map[int]failedMove{slot: {Count: 1, At: o.Now.Add(-ago)}} }
}

// slotMarks are those of slots that another member gives or gets.
func slotMarks(slots string, other int) map[int]string {
	all := map[int]string{}
	for slot := range slotsOf(slots).All() {
		all[slot] = idOf(other)
	}
	return all
}

// expecting marks slots as importing on the target only.
func expecting(slots string, to, from int) alter {
	return func(o *observed) { saidBy(o, to, idOf(to)).Importing = slotMarks(slots, from) }
}

// epoch gives a master another epoch. All members know it.
func epoch(ordinal int, is int64) alter {
	return func(o *observed) {
		each(o, idOf(ordinal), func(e *redisnode.Entry) { e.Epoch = is })
		saidBy(o, ordinal, idOf(ordinal)).Epoch = is
	}
}

// behind makes this the latest epoch that members know.
func behind(is int64, ordinals ...int) alter {
	return viewed(func(v *redisnode.View) { v.Epoch = is }, ordinals...)
}

// has gives a master other slots. All members know it.
func has(ordinal int, slots string) alter {
	return func(o *observed) {
		each(o, idOf(ordinal), func(e *redisnode.Entry) { e.Slots = slotsOf(slots) })
		saidBy(o, ordinal, idOf(ordinal)).Slots = slotsOf(slots)
	}
}

// claims makes a master claim slots. No other node knows of the claim.
func claims(ordinal int, slots string) alter {
	return func(o *observed) { saidBy(o, ordinal, idOf(ordinal)).Slots = slotsOf(slots) }
}

// unformed makes the cluster one that has never had all slots, and has no keys.
func unformed(o *observed) {
	o.Formed = false
	for _, m := range o.Members {
		m.View.Keys = 0
	}
}

// asked marks a replica as told to take over one second ago.
func asked(ordinal int) alter {
	return func(o *observed) { o.Members[ordinal].PromotedFor = duration(time.Second) }
}

// accepting sets the annotation that accepts a loss.
func accepting(value string) alter {
	return func(o *observed) { o.Object.Annotations = map[string]string{AnnotationAcceptDataLoss: value} }
}

// under sets the running operation in the status.
func under(operation string) alter {
	return func(o *observed) {
		o.Object.Status.Operation = &v1.Operation{Type: operation, Step: "A step", StartedAt: ptr.To(metav1.NewTime(seenAt.Add(-time.Minute)))}
	}
}

// What follows judges plans by what a scene is made of. It shares no rule with decide.

// harmToCopies says which data a command loses, or may lose; "" if none.
func (s scene) harmToCopies(p plan, c command) string {
	switch {
	case (c.verb == deletePod || c.verb == evictPod) && c.on.Pod != nil && c.on.Pod.Status.Phase != corev1.PodFailed:
		return s.harmOfRemoval(c.on, s.Object.Spec.Storage == nil)
	case c.verb == deleteClaim:
		return s.harmOfRemoval(c.on, true)
	case c.verb == forget:
		return s.harmOfForgetting(p, c.id)
	case c.verb == copyFunctions:
		return s.harmOfCopy(c.on)
	case c.verb == failover && c.how != redisnode.Graceful:
		return s.harmOfForce(c.on, c.how)
	}
	return ""
}

// harmOfRemoval is about a member whose Pod is deleted: with its data, or only for a while.
func (s scene) harmOfRemoval(m *member, withData bool) string {
	if !m.answers() && withData && s.Object.Spec.Storage != nil && s.keeps(m) && s.idKnown(m) == "" {
		return "deletes what may be the only copy of anything"
	}
	n := s.nodes[s.idKnown(m)]
	if n == nil {
		return ""
	}
	if m.answers() && m.View.Master && m.View.Keys > 0 && len(n.Slots) == 0 && withData {
		return "deletes keys that no other node has"
	}
	if n.Master || s.slots[n.MasterID].Len() == 0 {
		return "" // See harmOfDeletion.
	}
	master := s.byID[n.MasterID]
	if withData && (master == nil || !master.answers()) {
		return "deletes a copy of slots whose master does not answer"
	}
	if !m.answers() || !m.View.LinkUp {
		return ""
	}
	for _, other := range s.Members {
		o := s.nodes[s.idKnown(other)]
		if other != m && !s.leaving(other) && o != nil && !o.Master && o.MasterID == n.MasterID && (!other.answers() || !other.View.LinkUp) {
			return "deletes a replica that is up to date, while " + other.Name + " is not"
		}
	}
	return ""
}

// harmOfCopy is about a node that gets functions.
func (s scene) harmOfCopy(m *member) string {
	if v := m.View; s.slots[m.ID].Len() > 0 || v.Keys > 0 || !v.Unwritten || len(v.Libraries) > 0 {
		return "brings back what may have been deleted"
	}
	has := map[bool]bool{}
	for _, other := range s.Members {
		if s.slots[other.ID].Len() > 0 {
			has[other.answers() && len(other.View.Libraries) > 0] = true
		}
	}
	if len(has) != 1 || !has[true] {
		return "is due though the masters differ"
	}
	return ""
}

// harmOfForgetting is about a node that others are to forget.
func (s scene) harmOfForgetting(p plan, id string) string {
	for _, m := range s.Members {
		if s.Object.Spec.Storage == nil || idOf(m.Ordinal) != id || !s.keeps(m) || m.answers() {
			continue
		}
		if !slices.ContainsFunc(p.Commands, func(c command) bool { return (c.verb == deletePod || c.verb == evictPod) && c.on == m }) {
			return "forgets " + id + ", whose volume is there"
		}
	}
	return ""
}

// harmOfForce is about a replica that takes over without having asked its master.
func (s scene) harmOfForce(heir *member, how redisnode.Failover) string {
	id := heir.self().MasterID
	for _, m := range s.Members {
		if s.Object.Spec.Storage != nil && idOf(m.Ordinal) == id && s.keeps(m) && !m.answers() {
			return "takes over from " + id + ", whose volume is there"
		}
		n := s.nodes[s.idKnown(m)]
		if m == heir || n == nil || n.MasterID != id {
			continue
		}
		if how == redisnode.Takeover && !m.answers() {
			return "asks no master, and " + m.Name + " may have been elected"
		}
		if linkedAtLast(heir) {
			continue
		}
		if !m.answers() || (linkedAtLast(m) && m.View.Keys > 0) {
			return fmt.Sprintf("is stale, and %s may not be", m.Name)
		}
	}
	return ""
}

// linkedAtLast returns whether a replica was linked to its master shortly before that was
// lost, which is an hour ago.
func linkedAtLast(m *member) bool {
	return m.View.LinkUp || (m.View.LinkDown >= 0 && m.View.LinkDown <= time.Hour+20*time.Second)
}

// keeps returns whether the member has what it had from the start.
func (s scene) keeps(m *member) bool {
	if s.Object.Spec.Storage != nil {
		return m.Claim != nil && string(m.Claim.UID) == "uid-"+m.Claim.Name && m.Claim.Spec.VolumeName != ""
	}
	return m.Pod != nil && string(m.Pod.UID) == "uid-"+m.Name && m.Pod.Status.Phase != corev1.PodFailed
}

// idKnown is the ID of the member's node, as far as anybody can know it: the node itself,
// the status, or a node that knows its address.
func (s scene) idKnown(m *member) string {
	if m.answers() {
		return m.View.ID
	}
	for _, n := range s.Object.Status.Nodes {
		if n.Pod == m.Name && (m.Claim != nil || (m.Pod != nil && n.IP == m.ip())) {
			return n.ID
		}
	}
	for _, n := range s.nodes {
		if m.ip() != "" && n.IP == m.ip() {
			return n.ID
		}
	}
	return ""
}
