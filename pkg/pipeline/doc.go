// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pipeline is an informer made of client-go's own parts, with every step visible. It implements cache.SharedIndexInformer.
//
// An informer keeps an index: a copy of all objects of one resource. It follows their changes, and notifies handlers of each change. So
// controllers read from the index and not from the API server. An object passes these stages, one file each:
//
//	              API server
//	                  │  one WATCH, which begins with all existing objects
//	                  ▼  (or a LIST, and a WATCH from its resourceVersion)
//	reflector.go  Reflector         calls ListAndWatch again and again
//	                  │
//	                  │  Replace(all), then Add, Update, Delete; at intervals Resync
//	                  ▼
//	queue.go      delta queue       changes that are not applied yet
//	                  │
//	                  │  Pop: Replaced, Sync, Added, Updated, Deleted
//	                  ▼
//	index.go      apply ────────▶ Indexer ◀──────── listers: Get, List, ByIndex
//	                  │  first the index, then
//	                  ▼
//	dispatch.go   distribute        one notification, for all listeners
//	                  ├───────────────┬───────────────┐
//	                  ▼               ▼               ▼
//	               backlog         backlog         backlog     without bound
//	                  │               │               │
//	                  ▼               ▼               ▼
//	               handler         handler         handler     OnAdd, OnUpdate, OnDelete
//
// informer.go has the type, New, Run and the other methods. handlers.go adds and removes handlers. realfifo.go has the code for RealFIFO
// only. health.go records the outcome of the Reflector's requests, and ends a WATCH that has lost its bookmark. trace.go and writers.go
// report each stage. A controller's handler only puts a key into a workqueue; package loop has the rest of the path.
//
// # Goroutines
//
// Each arrow that crosses from one goroutine to another has a buffer. These goroutines carry objects; Run returns when all have ended:
//
//   - the reflector's: it waits for the network, and fills the queue. The reflector has a second goroutine,
//     which calls Resync at intervals.
//   - Run's own: it pops, writes to the index, and fills the backlogs. No other goroutine writes to the
//     index. Run's goroutine never waits for a handler.
//   - one per handler: it empties its backlog, one call after the other.
//
// So a handler gets the changes of an object in their order. Between objects, and between handlers,
// there is no order. When a handler gets a change, the index holds that state or a later one.
//
// # Guarantees for a handler
//
// A handler does not get every state: after a lost watch, it gets the missed changes as one step, or none if they cancel out. It does
// not always get the last state of a deleted object: if the watch missed the deletion, it gets the last known state in a
// cache.DeletedFinalStateUnknown, the tombstone. The same name does not mean the same object: a missed deletion and creation appear as one
// update, with another UID. A level-driven controller reads the present state from the index, so none of these gaps affects it.
//
// resourceVersions order the states of one object. A WATCH can resume from any resourceVersion without a gap. If the API server no longer
// has that resourceVersion (410 Gone), or after another error, the reflector relists, and Replace finds the difference.
//
// After a relist, a handler gets for an object that meanwhile
//
//	did not change             an update from a state to itself, if there are no periodic resyncs (see dispatcher)
//	changed, also many times   one update
//	was created                an addition
//	was deleted                a deletion, with a tombstone
//	was deleted and created    one update, to an object with another UID
//
// A resync does not read from the API server. It sends the objects of the index again, as updates from a
// state to itself, to the handlers that want resyncs.
//
// HasSynced of an informer reports that the index holds all objects of the first Replace. HasSynced of a handler's registration reports
// that the handler has received these too, or all objects that existed when the handler was added.
//
// # The two queues
//
// DeltaFIFO, the default, keeps a list of deltas per object. A change of an object that already waits is
// appended to that object's list, and one Pop takes the whole list:
//
//	events:   A at 5,  B at 7,  A at 9
//	DeltaFIFO:   [A Added 5, A Updated 9]   [B Added 7]
//	RealFIFO:    [A Added 5]   [B Added 7]   [A Updated 9]
//
// No delta is lost, except that two deletions become one. But a DeltaFIFO keeps only the order of the deltas of each object. So no
// resourceVersion describes the state of its index: LastStoreSyncResourceVersion returns "", unknown. With both queues, the index shows a
// write once it has the object at that resourceVersion or a later one.
//
// RealFIFO keeps the order. client-go's own shared informers have used it since 0.33, unless the feature
// gate InOrderInformers is off, and always since 0.36. Further differences:
//
//	                     DeltaFIFO                    RealFIFO
//	Replace              a Replaced per object, and   one ReplacedAll: the index
//	                     a Deleted per missing one,   finds the difference
//	                     from a look into the index   and changes in one step
//	Resync               a Sync per object that       one SyncAll
//	                     does not wait already
//	bookmarks            stop here                    Bookmark deltas
//	its lock             held while a Pop is applied  free, unless far behind
//	burst                object by object             up to 1000 objects in one
//	                                                  write to the index
//	"initial" flag       also on changes that were    on the first Replace only
//	                     popped with the first
//	                     Replace
//	unknown one deleted  dropped                      a deletion for the handlers
//	transform fails      objects before it in a LIST  none of the LIST does
//	                     reach the index
//
// A handler that only enqueues a key sees no difference.
//
// # Differences from client-go's informer
//
//   - A panic in a handler is logged and passed to utilruntime.PanicHandlers, and the handler loses that
//     notification. The process continues; client-go ends it unless ReallyCrash is false. The panic
//     delays no further notification, and HasSynced of the handler still becomes true.
//   - A handler has one goroutine and a backlog behind a mutex; client-go's has two goroutines and
//     two channels. The backlog frees the memory of a burst. The notifications of one relist are freed
//     together, after the slowest handler has received the last one.
//   - An error in applying a delta is logged. client-go ignores it.
//   - Every stage reports to package trace. Stats counts the objects in each stage, and Health says
//     whether there is a WATCH.
package pipeline
