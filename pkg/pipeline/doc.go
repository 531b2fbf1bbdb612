/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package pipeline is the informer with its back off: a cache.SharedIndexInformer
// put together in plain sight, from client-go's own parts.
//
// An informer saves everybody from asking the API server. It keeps a copy of all
// objects of one resource, the index, follows their changes, and tells handlers
// about each. This is the way of one object, and the file in which it passes:
//
//	            API server
//	                │  one WATCH, which begins with all objects there are
//	                ▼  (or a LIST, and a WATCH from its resourceVersion)
//	wire.go     Reflector          runs ListAndWatch again and again
//	                │
//	                │  Replace(all), then Add, Update, Delete; at times Resync
//	                ▼
//	delta.go    delta queue        what happened, not yet applied
//	                │
//	                │  Pop: Replaced, Sync, Added, Updated, Deleted
//	                ▼
//	index.go    apply ────────▶ Indexer ◀──────── listers: Get, List, ByIndex
//	                │  first the index, then
//	                ▼
//	dispatch.go tell               one notification, for every listener
//	                ├───────────────┬───────────────┐
//	                ▼               ▼               ▼
//	             backlog         backlog         backlog     without bound
//	                │               │               │
//	                ▼               ▼               ▼
//	             handler         handler         handler     OnAdd, OnUpdate, OnDelete
//
// informer.go holds the type, New, Run, and what is asked of an informer from
// outside; health.go, between the API server and the Reflector, notes how its
// requests go. A handler of a controller does no more than put the object's key into
// a workqueue; from there on it is package loop's.
//
// # Goroutines
//
// Each arrow that crosses from one goroutine to another has a buffer in it. These
// carry objects; Run returns when all have ended:
//
//   - the reflector's: blocked on the network, until it fills the queue. A second
//     one, of its own, calls Resync from time to time.
//   - Run's own: pops, writes to the index, fills the backlogs. It is the only one
//     that writes to the index, and never waits for a handler.
//   - one per handler: empties its backlog, one call after the other.
//
// So a handler is told of an object's changes in their order; between objects,
// and between handlers, there is no order. And when it is told, the index is at
// least as far: it may have moved on.
//
// # What a handler can rely on
//
// Not on seeing every state: what happened while the watch was lost is told as
// one step, or not at all if it came to nothing. Not on seeing the last state of
// what was deleted: if the deletion itself was missed, it gets the last known
// state wrapped as a cache.DeletedFinalStateUnknown, the tombstone. Not on an
// object being the same one because its name is: deleted and created anew in
// between is one update, with another UID. Level-driven controllers, which read
// the present from the index, need none of these.
//
// resourceVersions order the states of one object. With one, a WATCH that has ended
// continues without a gap. When the API server has forgotten it (410 Gone), or
// after another error, the reflector reads everything again, and Replace works out
// the difference.
//
// A resync does not ask the API server. It tells again what the index holds, as
// updates from a state to itself, to those handlers that asked for it.
//
// HasSynced of an informer says that the index holds all of the first Replace.
// HasSynced of a handler's registration says that the handler has been given all
// of it, too, or all that was there when it joined.
//
// # The two queues
//
// DeltaFIFO, the default here, keeps a list of deltas per object. What happens to
// an object while it waits joins that list, and one Pop takes all of it:
//
//	events:   A at 5,  B at 7,  A at 9
//	DeltaFIFO:   [A Added 5, A Updated 9]   [B Added 7]
//	RealFIFO:    [A Added 5]   [B Added 7]   [A Updated 9]
//
// No delta gets lost this way, except that two deletions become one: every delta
// is applied and told. But order is kept for each object only. So behind a
// DeltaFIFO there is no resourceVersion of which one could say that the index has
// come so far; see Informer.IndexResourceVersion.
//
// RealFIFO keeps the order. client-go's own shared informers have it since 0.33,
// unless the feature gate InOrderInformers is off, and always since 0.36. What
// differs besides:
//
//	                     DeltaFIFO                    RealFIFO
//	Replace              a Replaced per object, and   one ReplacedAll: the index
//	                     a Deleted per missing one,   works out the difference
//	                     from a look into the index   and changes in one step
//	Resync               a Sync per object that       one SyncAll
//	                     does not wait already
//	bookmarks            stop here                    Bookmark deltas
//	its lock             held while a Pop is applied  free, unless far behind
//	burst                object by object             up to 1000 objects in one
//	                                                  write to the index
//	"initial" flag       also on what joined the      on the first Replace only
//	                     first Replace in the queue
//	unknown one deleted  dropped                      told as a deletion
//	transform fails      objects before it in a LIST  none of the LIST does
//	                     reach the index
//	metrics              none                         depth, latency, and how far
//	                                                  the index is
//
// To a handler that only takes a change as a reason to look, it makes no difference.
//
// # Where it differs from client-go's informer
//
//   - A panic in a handler is logged, passed to utilruntime.PanicHandlers, and
//     costs that handler the one notification. It neither ends the process, as it
//     does in client-go unless ReallyCrash is false, nor delays the following
//     notifications, nor keeps the handler from syncing.
//   - A handler has one goroutine and a backlog behind a mutex, where client-go's
//     has two and hands every notification through two channels. The backlog gives
//     back the memory of a burst; the notifications of one relist go together, once
//     the slowest handler has seen the last of them.
//   - An error of applying a delta is logged. client-go ignores it.
//   - Every stage reports to package trace, Stats shows what is under way, and
//     Health whether there is a WATCH.
package pipeline
