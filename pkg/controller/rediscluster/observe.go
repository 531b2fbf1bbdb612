// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	klabels "k8s.io/apimachinery/pkg/labels"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
)

// observed is what one sync sees: the Pods and volumes in the caches, the cluster as each of its nodes
// describes it, what the controller remembers, and whether the API server accepts the next Pod. It has
// only plain values, and nothing changes it after observe has returned it. Its exported fields are in a record: see Decisions.
type observed struct {
	Object  *v1.RedisCluster `json:"object"`
	Members []*member        `json:"members"` // by ordinal
	Now     time.Time        `json:"now"`
	// Formed is whether all slots were assigned once.
	Formed bool `json:"formed"`
	// Problems are obstacles that the caches or the Secret show.
	Problems []problem `json:"problems,omitempty"`
	// UnassignedFor is for how long some slots have had no owner.
	UnassignedFor metav1.Duration `json:"unassignedFor,omitzero"`
	// FunctionsDifferFor is for how long the masters have not had the same functions.
	FunctionsDifferFor metav1.Duration `json:"functionsDifferFor,omitzero"`
	// NoFailoverFor is for how long a node has kept replicas from being elected.
	NoFailoverFor metav1.Duration `json:"noFailoverFor,omitzero"`
	// Failure is the error of the last commands, and FailingFor for how long commands have failed. They
	// are nil and 0 if the last commands succeeded.
	Failure    *problem        `json:"failure,omitempty"`
	FailingFor metav1.Duration `json:"failingFor,omitzero"`
	// Rejection is why the API server rejects the new Pod of an outdated member; "" if it does not. No Pod is then replaced.
	Rejection string `json:"rejection,omitempty"`
	// GrowthRefused is why the API server refused a larger volume, and GrowthRefusedAt when; nil if it did not.
	GrowthRefused   *problem  `json:"growthRefused,omitempty"`
	GrowthRefusedAt time.Time `json:"growthRefusedAt,omitzero"`
	// EvictionRefused is why the last eviction was refused; "" if it was not.
	EvictionRefused string `json:"evictionRefused,omitempty"`
	// ActedAt is when the last plan was carried out that did not only wait; zero if that is unknown.
	ActedAt time.Time `json:"actedAt,omitzero"`
	// Revisions are those of the Pods that exist. configs has the spec.config of each revision but the current one, if it is
	// known.
	Revisions    map[string]bool `json:"revisions,omitempty"`
	configs      map[string]map[string]v1.ConfigValue
	users        []user    // those that the nodes should have, unless Redis refuses their rules
	userProblems []problem // of users whose Secret has no password
	refusals     refusals
	retired      map[string]bool // the users whose old passwords are no longer valid
	// MissingUser is why new nodes would not have a user; "" if they would.
	MissingUser string `json:"missingUser,omitempty"`
	// accountHash is the hash of the password of the operator's own user; "" if there is none. AccountMissing is whether the Secret with
	// that password must be created now, and AccountProblem why no Pod can mount it; nil if one can, or if the creation was not tried yet.
	accountHash    string
	AccountMissing bool     `json:"accountMissing,omitempty"`
	AccountProblem *problem `json:"accountProblem,omitempty"`
	// Certificate is the one in the Secret of spec.tls; nil if no node has or gets one.
	Certificate *certificate `json:"certificate,omitempty"`
	// Services are those for clients outside of the cluster.
	Services []*corev1.Service `json:"services,omitempty"`
	// Moves are the slots whose move has failed and is not over.
	Moves map[int]failedMove `json:"moves,omitempty"`
	// rules are what nodes have said about directives.
	rules directiveRules
	// Pods is how many Pods the PodDisruptionBudget has to count: those that exist, and those that the
	// operator will create. Uncounted is how many of them it does not count yet.
	Pods      int `json:"pods"`
	Uncounted int `json:"uncounted"`
	// Closed says that no Service selects a Pod: see manifest.IsClosed.
	Closed bool `json:"closed,omitempty"`
	// Jobs are the Jobs of backups and of the restore, sorted by name. BackupImage is the image of new Jobs; "" if none can be created.
	// JobRejection is why the API server rejected the last Job ("" if it did not), and JobRejectedAt when. JobFailure is why a Job could
	// not be deleted, or its Pods could not be read; "" if nothing failed.
	Jobs          []*job    `json:"jobs,omitempty"`
	BackupImage   string    `json:"backupImage,omitempty"`
	JobRejection  string    `json:"jobRejection,omitempty"`
	JobRejectedAt time.Time `json:"jobRejectedAt,omitzero"`
	JobFailure    string    `json:"jobFailure,omitempty"`
	byID          map[string]*member
	// nodes are all nodes that any member knows, by ID. Each has its own entry; if it does not answer, it has the entry with the highest
	// config epoch among those of the members.
	nodes map[string]*node
	// slots are the slots of each owner, by the highest config epoch. A node without slots has no entry.
	slots map[string]redisnode.Slots
	// Histories are those of nodes, in a record, by their IDs.
	Histories map[string]history `json:"nodes,omitempty"`
}

// member is a Pod of the cluster that exists or will be created.
type member struct {
	Name    string                        `json:"name"`
	Ordinal int                           `json:"ordinal"`
	Pod     *corev1.Pod                   `json:"pod,omitempty"`   // nil if it does not exist
	Claim   *corev1.PersistentVolumeClaim `json:"claim,omitempty"` // nil if it does not exist, or the spec has no storage
	Taken   bool                          `json:"taken,omitempty"` // whether a Pod of another owner has the name

	// View is what the redis-server reports. It is nil if the server does not answer; WhySilent then
	// says why, Refused whether the server refused the password, and Untrusted whether
	// its certificate is not trusted.
	View      *redisnode.View             `json:"view,omitempty"`
	WhySilent string                      `json:"whySilent,omitempty"`
	Refused   bool                        `json:"refused,omitempty"`
	Untrusted bool                        `json:"untrusted,omitempty"`
	entries   map[string]*redisnode.Entry // the view's table, by ID
	// SilentFor is for how long the server has not answered.
	SilentFor metav1.Duration `json:"silentFor,omitzero"`
	// service is the Service for clients of this node outside of the cluster; nil if there is none. ReachedAt is the address at which the
	// operator reached the node through it; zero if the last attempt failed, or if there was none. WhyUnreached is why the attempt failed,
	// and AddressMissedFor for how long attempts have failed.
	service          *corev1.Service
	ReachedAt        manifest.Address `json:"reachedAt,omitzero"`
	WhyUnreached     string           `json:"whyUnreached,omitempty"`
	AddressMissedFor metav1.Duration  `json:"addressMissedFor,omitzero"`
	// UnreachedFor is for how long the other nodes have not reached the node at the address that it announces.
	UnreachedFor metav1.Duration `json:"unreachedFor,omitzero"`
	// ID is the ID of the node. A silent member has one too, if it is known; otherwise it is "".
	ID string `json:"id,omitempty"`
	// Differs is whether the Pod has another revision than the spec, and Outdated whether it has to be replaced. It is not outdated if
	// only directives differ that can be set while its node runs.
	Differs  bool `json:"differs,omitempty"`
	Outdated bool `json:"outdated,omitempty"`
	// config is the spec.config that the Pod was created with; nil if that is unknown. set are the directives in its
	// AnnotationDirectives.
	config map[string]v1.ConfigValue
	set    map[string]*string
	// wanted are the values of directives that the node should have and does not get from its redis.conf. directives are its present
	// values of these directives; nil if it was not asked. noConfig is whether it does not accept the command CONFIG.
	wanted, directives map[string]string
	noConfig           bool
	// Pending are the names of the directives to set. TellsHostnames is whether the node tells clients hostnames because of spec.access.
	Pending        []string `json:"pending,omitempty"`
	TellsHostnames bool     `json:"tellsHostnames,omitempty"`
	// users are those that the node has; nil if it was not asked. PendingUsers are the names of those to set or delete now.
	users        map[string]redisnode.User
	PendingUsers []string `json:"pendingUsers,omitempty"`
	// StaleCertificate is whether the node serves another certificate than that of the Secret, and StaleFor for how long it has. LoadedFor
	// is how long ago the node was made to load that certificate; 0 if it was not, or longer ago than loadEvery. LoadRefusal is why the
	// node refused it; "" if it did not.
	StaleCertificate bool            `json:"staleCertificate,omitempty"`
	StaleFor         metav1.Duration `json:"staleFor,omitzero"`
	LoadedFor        metav1.Duration `json:"loadedFor,omitzero"`
	LoadRefusal      string          `json:"loadRefusal,omitempty"`
	// UnreadyFor is for how long the Pod has run without being ready.
	UnreadyFor metav1.Duration `json:"unreadyFor,omitzero"`
	// PromotedFor is how long ago the member was asked to take over from its master. It is 0 if it was
	// not asked, or longer ago than failoverPatience.
	PromotedFor metav1.Duration `json:"promotedFor,omitzero"`
	// UnlinkedFor is for how long a replica that answers has not been linked to its master, as it reports or as earlier syncs saw. It is
	// negative if neither is known.
	UnlinkedFor metav1.Duration `json:"unlinkedFor,omitzero"`
}

// node is a node of the Redis Cluster that some member knows.
type node struct {
	redisnode.Entry
	member *member // nil if the node belongs to no Pod of this cluster
	history
}

// history is what the operator remembers of a node.
type history struct {
	// UnknownFor is for how long the node has belonged to no Pod.
	UnknownFor metav1.Duration `json:"unknownFor,omitzero"`
	// UnreachableFor is for how long no member has been connected to the node, as far as the operator saw.
	UnreachableFor metav1.Duration `json:"unreachableFor,omitzero"`
	// LossSeen is whether a member was connected to the node until shortly before that. If not, the node
	// may have been lost much earlier, for example before the operator started.
	LossSeen bool `json:"lossSeen,omitempty"`
}

// problem is a reason and a message for a condition. Records contain it unchanged.
type problem struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// TrimPod is the transform of the cache of Pods: it keeps what observe and the policies read of a Pod. The rest takes most of the memory. A
// write never starts from such a Pod. The tests of this package use it, too: they fail if it drops what the controller needs.
func TrimPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok { // client-go passes no tombstones.
		return obj, nil
	}
	containers := make([]corev1.Container, len(pod.Spec.Containers))
	for i, c := range pod.Spec.Containers {
		containers[i] = corev1.Container{Name: c.Name, Image: c.Image, Ports: c.Ports}
	}
	var volumes []corev1.Volume
	for _, v := range pod.Spec.Volumes {
		if v.Name == manifest.VolumeAuth || v.Name == manifest.VolumeTLS {
			volumes = append(volumes, v)
		}
	}
	pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName, Containers: containers, Volumes: volumes}
	pod.Status = corev1.PodStatus{
		Phase: pod.Status.Phase, HostIP: pod.Status.HostIP, PodIP: pod.Status.PodIP, Conditions: pod.Status.Conditions,
		InitContainerStatuses: pod.Status.InitContainerStatuses, ContainerStatuses: pod.Status.ContainerStatuses,
	}
	return pod, nil
}

// observe reads everything else that a sync depends on.
func (c *Controller) observe(ctx context.Context, o *observed) error {
	err := c.observeCluster(ctx, o)
	if err == nil {
		o.Rejection = c.tryReplacement(ctx, o)
	}
	return err
}

// observeCluster reads the results of Jobs, the password, and what every node reports. It is observe without the dry run, for glassback
// plan: to the API server, a dry run is a write, and glassback plan needs no right to write.
func (c *Controller) observeCluster(ctx context.Context, o *observed) error {
	rdc, s := o.Object, c.sessions.get(o.Object)
	o.Now = c.clock.Now().UTC() // The children have been applied meanwhile.
	if err := c.observeJobs(ctx, o); err != nil {
		return err
	}
	var noPassword *problem
	var err error
	if o.usesAccount() {
		noPassword, err = c.sessions.readUsers(ctx, o)
	} else {
		noPassword, err = c.sessions.authenticate(ctx, rdc)
	}
	switch {
	case err != nil:
		return err
	case noPassword != nil:
		o.Problems = append(o.Problems, *noPassword)
	default:
		c.askNodes(ctx, o)
	}
	s.recordDirectives(o)
	o.markOutdated()
	o.identify()
	o.merge()
	o.markCertificates()
	c.reachNodes(ctx, o)
	s.recordServices(o)
	s.recall(o)
	o.markUsers()
	return nil
}

// observeObjects reads the caches and finds the members.
func (c *Controller) observeObjects(rdc *v1.RedisCluster) (*observed, error) {
	o := &observed{Object: rdc, Now: c.clock.Now().UTC(), Revisions: map[string]bool{}}
	if last := meta.FindStatusCondition(rdc.Status.Conditions, v1.ConditionClusterFormed); last != nil {
		o.Formed = last.Status == metav1.ConditionTrue || last.Reason != reasonForming
	}
	pods, err := objectsOf[*corev1.Pod](c.pods, rdc)
	if err != nil {
		return nil, err
	}
	claims, err := objectsOf[*corev1.PersistentVolumeClaim](c.claims, rdc)
	if err != nil {
		return nil, err
	}
	o.Closed = manifest.IsClosed(rdc, c.services.Observe(rdc, rdc.Name).Object)
	o.rules, o.Certificate = c.sessions.get(rdc).rules.clone(), c.sessions.get(rdc).certificate
	c.readConfigs(o, pods)
	o.findMembers(pods, claims)
	if o.Services, err = c.externalServices(rdc); err != nil {
		return nil, err
	}
	o.matchServices()
	o.countPods(pods, c.budgets.Observe(rdc, rdc.Name).Object)
	return o, nil
}

// findMembers sets the members by these Pods and claims.
func (o *observed) findMembers(pods []*corev1.Pod, claims []*corev1.PersistentVolumeClaim) {
	rdc, size, byOrdinal := o.Object, int(*o.Object.Spec.Size), map[int]*member{}
	at := func(ordinal int) *member {
		if byOrdinal[ordinal] == nil {
			byOrdinal[ordinal] = &member{Name: manifest.PodName(rdc, ordinal), Ordinal: ordinal}
		}
		return byOrdinal[ordinal]
	}
	for ordinal := range size {
		at(ordinal)
	}
	for _, p := range pods {
		ordinal, ok := ordinalOf(rdc.Name+"-", p.Name)
		switch {
		case !ok:
		case metav1.IsControlledBy(p, rdc):
			at(ordinal).Pod = p
		case ordinal < size:
			at(ordinal).Taken = true
			o.Problems = append(o.Problems, problem{reasonConflict,
				fmt.Sprintf("Pod %s exists already and is not controlled by this RedisCluster: rename or delete one of the two", p.Name)})
		}
	}
	for _, claim := range claims {
		ordinal, ok := ordinalOf("data-"+rdc.Name+"-", claim.Name)
		if !ok || rdc.Spec.Storage == nil {
			continue
		}
		// A claim that is being deleted, with its ordinal beyond the size and its Pod gone, was emptied before.
		if byOrdinal[ordinal] != nil || claim.DeletionTimestamp == nil {
			at(ordinal).Claim = claim
		}
	}
	o.Members = slices.SortedFunc(maps.Values(byOrdinal), func(a, b *member) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
	o.markOutdated()
}

// readConfigs reads from the ConfigMaps the spec.config of each revision of a Pod, except the current one.
func (c *Controller) readConfigs(o *observed, pods []*corev1.Pod) {
	current := manifest.Revision(o.Object)
	o.configs = map[string]map[string]v1.ConfigValue{}
	for _, p := range pods {
		was := p.Annotations[manifest.AnnotationRevision]
		if _, known := o.configs[was]; known || was == "" || was == current {
			continue
		}
		cm := c.configurations.Observe(o.Object, o.Object.Name+"-"+was).Object
		if cm == nil || !metav1.IsControlledBy(cm, o.Object) {
			continue
		}
		if config, ok := manifest.ConfigIn(cm.Data); ok {
			o.configs[was] = config
		}
	}
}

// countPods sets the revisions of the Pods, how many of them the PodDisruptionBudget has to count, and
// how many it does not count yet. A PodDisruptionBudget that does not exist, or that an earlier version of
// the operator wrote, has no such number.
func (o *observed) countPods(pods []*corev1.Pod, budget *policyv1.PodDisruptionBudget) {
	counted := klabels.SelectorFromSet(manifest.Selector(o.Object))
	for _, p := range pods {
		o.Revisions[p.Annotations[manifest.AnnotationRevision]] = true
		if counted.Matches(klabels.Set(p.Labels)) {
			o.Pods++
		}
	}
	o.Pods += len(o.membersWhere(func(m *member) bool { return m.Pod == nil && !m.Taken }))
	if budget != nil && budget.Spec.MinAvailable != nil {
		o.Uncounted = max(0, o.Pods-1-budget.Spec.MinAvailable.IntValue())
	}
}

// ordinalOf returns the ordinal that follows prefix in name.
func ordinalOf(prefix, name string) (int, bool) {
	digits, ok := strings.CutPrefix(name, prefix)
	ordinal, err := strconv.Atoi(digits)
	return ordinal, ok && err == nil && strconv.Itoa(ordinal) == digits
}

// unreadyFor returns for how long a Pod has run without being ready.
func unreadyFor(pod *corev1.Pod, now time.Time) time.Duration {
	if pod == nil || !redisRuns(pod) {
		return 0
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse {
			return now.Sub(c.LastTransitionTime.Time)
		}
	}
	return 0
}

// waitingFor returns what a Pod that does not run waits for.
func waitingFor(pod *corev1.Pod) string {
	for _, s := range startingContainers(pod) {
		w := s.State.Waiting
		if w == nil || w.Reason == "" {
			continue
		}
		if ended := s.LastTerminationState.Terminated; ended != nil && ended.Message != "" {
			return w.Reason + ": " + lastOutput(ended.Message)
		}
		return strings.TrimSuffix(w.Reason+": "+w.Message, ": ")
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return strings.TrimSuffix(c.Reason+": "+c.Message, ": ")
		}
	}
	return "the Pod does not run yet"
}

// lastOutput returns the end of what a container has printed, in one line.
func lastOutput(message string) string {
	words := strings.Join(strings.Fields(message), " ")
	const maxLength = 300
	if len(words) > maxLength {
		words = "…" + strings.ToValidUTF8(words[len(words)-maxLength:], "")
	}
	return words
}

// tryInterval is the time after which a dry run is repeated.
const tryInterval = 10 * time.Second

// tryReplacement returns why the API server rejects the new Pod of an outdated member; "" if it does not. It makes a dry run, since an
// emptied or deleted Pod cannot be restored. It repeats a result only after tryInterval, and a failed dry run at once. AlreadyExists means
// success: the API server checks the name last.
func (c *Controller) tryReplacement(ctx context.Context, o *observed) string {
	outdated := o.membersWhere(func(m *member) bool {
		return (m.Outdated || (m.Differs && !m.answers())) && m.Ordinal < int(*o.Object.Spec.Size)
	})
	if len(outdated) == 0 {
		return ""
	}
	m, s, current := outdated[0], c.sessions.get(o.Object), manifest.Revision(o.Object)
	if s.tried != current || o.Now.Sub(s.triedAt) >= tryInterval {
		_, err := c.kube.CoreV1().Pods(o.Object.Namespace).Create(ctx, manifest.Pod(o.Object, m.Ordinal),
			metav1.CreateOptions{FieldManager: glassback.Name, DryRun: []string{metav1.DryRunAll}})
		switch {
		case err == nil, apierrors.IsAlreadyExists(err), isQuota(err), isDryRunUnsupported(err):
			s.tried, s.triedAt, s.rejection = current, o.Now, ""
		case isRejected(err):
			s.tried, s.triedAt = current, o.Now
			s.rejection = m.Name + " stays, since the API server rejects its new Pod: " + err.Error()
		default:
			s.tried, s.rejection = "", m.Name+" stays, since a dry run of creating its new Pod failed: "+err.Error()
		}
	}
	return s.rejection
}

// isDryRunUnsupported returns whether a webhook has side effects, so that the API server does not call it in a dry run.
func isDryRunUnsupported(err error) bool {
	return apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "does not support dry run")
}
