// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/trace"
)

// These errors have the texts of client-go's own informer.
var (
	errStarted = errors.New("informer has already started")
	errStopped = errors.New("has stopped already")
)

// Config describes an Informer. ListerWatcher and Object are required.
type Config struct {
	// ListerWatcher reads from the API server.
	ListerWatcher cache.ListerWatcher
	// Object is an example of the objects. Objects of another type are dropped. An unstructured example needs its apiVersion and kind.
	Object runtime.Object
	// Resource names the informer in logs, such as "jobs.batch".
	Resource string
	// Name names the informer in traces; Resource if empty. It distinguishes several informers of one resource.
	Name string
	// Queue is the delta queue; DeltaFIFO by default.
	Queue Queue
	// Indexers are the indexers of the index; AddIndexers adds more.
	Indexers cache.Indexers
	// ResyncPeriod is for handlers that specify none. With zero, there are no periodic resyncs.
	ResyncPeriod time.Duration
	// Transform trims each object before anything else reads it. It must be idempotent: an object of a streamed initial list passes twice,
	// when it arrives and when the list is complete. client-go's own informers do the same.
	//
	// An error drops that object of a WATCH or a streamed list. It makes a LIST fail, and the reflector repeats the LIST after a backoff. A
	// DeltaFIFO has then accepted the objects before the failed one: they reach the index and the handlers, and an informer that has not
	// synced yet does not sync. A RealFIFO, as in client-go's own informers, accepts the whole list or nothing.
	Transform cache.TransformFunc
	// Trace records every stage; may be nil.
	Trace *trace.Recorder
	// Backoff is the delay of the reflector while LIST or WATCH fails; client-go's own if nil. Its Duration is positive.
	Backoff *wait.Backoff
}

// Informer keeps an index of the objects of one resource, and notifies handlers of changes. It is a
// cache.SharedIndexInformer with the behaviour of client-go's own. The package comment explains it.
//
// Locks, in the order in which they are taken: mu, the queue's own, dispatcher.mu, a backlog's own;
// that of requests comes last. No lock is held while a handler is called.
type Informer struct {
	cfg        Config
	name       string
	requests   requests
	indexer    cache.Indexer
	dispatcher dispatcher
	mutations  cache.MutationDetector // a no-op unless KUBE_CACHE_MUTATION_DETECTOR is set
	tracer     tracer

	synced  chan struct{} // closed once the index holds the first list
	arrived atomic.Int64  // objects that the reflector has read; reflectorStore counts them
	_       [64]byte      // keeps the two counters out of one cache line: two goroutines write them
	applied atomic.Int64  // the arrived objects that no longer wait: see countApplied

	mu                sync.Mutex
	started, stopped  bool
	transform         cache.TransformFunc                             // fixed from the start
	watchErrorHandler cache.WatchErrorHandlerWithContext              // fixed from the start
	resyncCheckPeriod time.Duration                                   // fixed from the start
	wrapQueue         func(cache.ReflectorStore) cache.ReflectorStore // fixed from the start; nil: no wrapper
	reflector         *cache.Reflector                                // nil before the start
}

var _ cache.SharedIndexInformer = (*Informer)(nil)

// New returns an Informer that does not run yet. Under a generated factory:
//
//	factory.InformerFor(&batchv1.Job{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
//		return pipeline.New(pipeline.Config{Resource: "jobs.batch", Object: &batchv1.Job{}, ResyncPeriod: resync, …})
//	})
func New(cfg Config) *Informer {
	i := &Informer{
		cfg:               cfg,
		name:              cfg.Resource,
		mutations:         cache.NewCacheMutationDetector(fmt.Sprintf("%T", cfg.Object)),
		tracer:            tracer{recorder: cfg.Trace, source: cmp.Or(cfg.Name, cfg.Resource), kind: kindOf(cfg.Object)},
		synced:            make(chan struct{}),
		transform:         cfg.Transform,
		watchErrorHandler: cache.DefaultWatchErrorHandler,
		resyncCheckPeriod: cfg.ResyncPeriod,
	}
	if i.name == "" {
		i.name = fmt.Sprintf("%T", cfg.Object)
	}
	indexers := cache.Indexers{} // a copy: AddIndexers adds to it
	maps.Copy(indexers, cfg.Indexers)
	i.indexer = newIndexer(cfg.Queue, indexers)
	return i
}

// Run is RunWithContext with a channel.
func (i *Informer) Run(stopCh <-chan struct{}) {
	i.RunWithContext(wait.ContextForChannel(stopCh))
}

// RunWithContext runs the informer until ctx ends. It returns when all of its goroutines and all calls
// of handlers have ended. An informer runs only once.
func (i *Informer) RunWithContext(ctx context.Context) {
	defer utilruntime.HandleCrashWithContext(ctx)
	queue, err := i.start(klog.FromContext(ctx))
	if err != nil {
		klog.FromContext(ctx).Error(err, "Run", "informer", i.name)
		return
	}

	var upstream sync.WaitGroup
	upstream.Go(func() { i.reflect(ctx) })
	upstream.Go(func() { i.awaitSync(ctx, queue) })
	upstream.Go(func() { i.mutations.Run(ctx.Done()) })
	upstream.Go(func() {
		<-ctx.Done()
		queue.Close() // ends a pop that waits for deltas
	})
	wait.UntilWithContext(ctx, func(ctx context.Context) { i.pop(ctx, queue) }, time.Second)
	upstream.Wait()

	// The handlers stop last: nothing sends them notifications any more.
	i.stop()
	i.dispatcher.stop()
}

// start fixes the settings, and connects the parts.
func (i *Informer) start(logger klog.Logger) (cache.Queue, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.started {
		return nil, errStarted
	}
	i.started = true
	i.transform = i.tracer.withWriters(i.transform)
	queue := i.newQueue(logger)
	var store cache.ReflectorStore = queue
	if i.wrapQueue != nil {
		store = i.wrapQueue(store)
	}
	i.reflector = i.newReflector(logger, store)
	i.dispatcher.start()
	return queue, nil
}

// awaitSync waits until the first Replace has been applied.
func (i *Informer) awaitSync(ctx context.Context, queue cache.Queue) {
	select {
	case <-ctx.Done():
	case <-queue.HasSyncedChecker().Done():
		// DeltaFIFO closes the channel when it pops the last object, before it applies that object. It holds
		// its lock during both, so HasSynced returns only after the object is applied.
		queue.HasSynced()
		close(i.synced)
		i.dispatcher.indexSynced()
	}
}

func (i *Informer) stop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stopped = true
}

// IsStopped reports whether the informer has run and ended. A stopped informer accepts no handler.
func (i *Informer) IsStopped() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.stopped
}

// GetStore returns the index.
func (i *Informer) GetStore() cache.Store { return i.indexer }

// GetIndexer returns the index. It is for reading: handlers do not learn of other writes to it.
func (i *Informer) GetIndexer() cache.Indexer { return i.indexer }

// AddIndexers adds indexers, and indexes the objects that the index already holds. It fails after the informer has stopped.
func (i *Informer) AddIndexers(indexers cache.Indexers) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stopped {
		return fmt.Errorf("indexer was not added because it %w", errStopped)
	}
	return i.indexer.AddIndexers(indexers)
}

// SetTransform replaces Config.Transform. It fails after the start.
func (i *Informer) SetTransform(transform cache.TransformFunc) error {
	return i.set(func() { i.transform = transform })
}

// SetWatchErrorHandler is SetWatchErrorHandlerWithContext without a context.
func (i *Informer) SetWatchErrorHandler(handler cache.WatchErrorHandler) error {
	return i.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector, err error) { handler(r, err) })
}

// SetWatchErrorHandlerWithContext sets the function that is called when a LIST or WATCH fails; nil is
// cache.DefaultWatchErrorHandler, which logs the error. It fails after the start.
func (i *Informer) SetWatchErrorHandlerWithContext(handler cache.WatchErrorHandlerWithContext) error {
	if handler == nil {
		handler = cache.DefaultWatchErrorHandler
	}
	return i.set(func() { i.watchErrorHandler = handler })
}

// WrapReflector puts wrappers around the two sides of the reflector: around the ListerWatcher that it
// reads from, and around the delta queue that it writes to. A wrapper passes on the optional methods of
// its argument: IsWatchListSemanticsUnSupported, and Transformer and Bookmark. It fails after the start.
func (i *Informer) WrapReflector(
	source func(cache.ListerWatcher) cache.ListerWatcher, queue func(cache.ReflectorStore) cache.ReflectorStore,
) error {
	return i.set(func() {
		i.cfg.ListerWatcher = source(i.cfg.ListerWatcher)
		i.wrapQueue = queue
	})
}

// set calls change, unless the informer has started.
func (i *Informer) set(change func()) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.started {
		return errStarted
	}
	change()
	return nil
}

// HasSynced reports whether the index holds all objects of the first list. A handler may not have received
// all of them yet: see its registration's HasSynced.
func (i *Informer) HasSynced() bool { return cache.IsDone(i.HasSyncedChecker()) }

// HasSyncedChecker returns HasSynced as a channel, which closes when the index is synced.
func (i *Informer) HasSyncedChecker() cache.DoneChecker { return syncedChecker{i} }

type syncedChecker struct{ i *Informer }

func (c syncedChecker) Name() string          { return fmt.Sprintf("SharedIndexInformer %T", c.i.cfg.Object) }
func (c syncedChecker) Done() <-chan struct{} { return c.i.synced }

// LastSyncResourceVersion returns the last resourceVersion that the reflector has read; "" before the
// first list is complete. The index may be behind.
func (i *Informer) LastSyncResourceVersion() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.reflector == nil {
		return ""
	}
	return i.reflector.LastSyncResourceVersion()
}

// GetController returns a controller for older code that calls HasSynced on it. Its Run does nothing.
func (i *Informer) GetController() cache.Controller { return controller{i} }

type controller struct{ *Informer }

func (controller) Run(<-chan struct{})            {}
func (controller) RunWithContext(context.Context) {}

// Name returns the informer's name in traces.
func (i *Informer) Name() string { return i.tracer.source }

// Resource returns the Resource of the Config.
func (i *Informer) Resource() string { return i.cfg.Resource }

// Kind returns the kind of the informer's objects, such as "Job".
func (i *Informer) Kind() string { return i.tracer.kind }

// Queue returns the kind of the informer's delta queue.
func (i *Informer) Queue() Queue { return i.cfg.Queue }

// Stats counts the objects and notifications in an Informer.
type Stats struct {
	// Arrived counts the objects that the reflector has read. Applied counts those that no longer wait to be applied to the index.
	Arrived, Applied int64
	// Queued counts the objects that the reflector has read and that are not applied to the index yet. An
	// object counts once for each change. A DeltaFIFO drops the deletion of an unknown object, which then counts for ever.
	Queued int
	// Handlers are in order of registration.
	Handlers []HandlerStats
}

// HandlerStats describes one handler.
type HandlerStats struct {
	// Handler is the handler's String, if it is a fmt.Stringer, or else its Go type.
	Handler string
	// Pending counts the notifications that the handler has not finished.
	Pending int
	// Synced is its registration's HasSynced.
	Synced bool
}

// Stats returns the present counts. It waits while deltas are applied, and is cheap.
func (i *Informer) Stats() Stats {
	i.dispatcher.mu.Lock()
	defer i.dispatcher.mu.Unlock()
	stats := Stats{Applied: i.applied.Load(), Arrived: i.arrived.Load(), Handlers: make([]HandlerStats, len(i.dispatcher.listeners))}
	stats.Queued = max(int(stats.Arrived-stats.Applied), 0)
	for n, l := range i.dispatcher.listeners {
		stats.Handlers[n] = HandlerStats{Handler: l.name(), Pending: int(l.backlog.pending.Load()), Synced: l.HasSynced()}
	}
	return stats
}
