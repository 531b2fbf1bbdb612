/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

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
	"k8s.io/utils/clock"

	"github.com/glassback/glassback/pkg/trace"
)

// minimumResyncPeriod is the shortest resync period that a handler can get.
const minimumResyncPeriod = time.Second

// Errors have the texts of client-go's own informer.
var (
	errStarted = errors.New("informer has already started")
	errStopped = errors.New("has stopped already")
)

// Config describes an Informer. ListerWatcher and Object are required.
type Config struct {
	// ListerWatcher reads from the API server.
	ListerWatcher cache.ListerWatcher
	// Object is an example of what it reads. What is of another type is dropped.
	// An unstructured one needs its apiVersion and kind.
	Object runtime.Object
	// Resource names the informer in logs, such as "jobs.batch".
	Resource string
	// Name names it in traces; Resource if empty. Several informers of a resource tell
	// themselves apart by it.
	Name string
	// Description is what the reflector calls the objects in its logs; their Go
	// type if empty.
	Description string
	// Queue is the delta queue; DeltaFIFO by default.
	Queue Queue
	// Indexers are what the index can be searched by, beside the key.
	Indexers cache.Indexers
	// ResyncPeriod is for handlers that ask for none of their own. Zero, and no
	// handler gets resyncs.
	ResyncPeriod time.Duration
	// Transform trims each object before anything else sees it. It must be
	// idempotent: an object of a streamed initial list passes twice, as it
	// arrives and when the list is complete. This is so in stock informers too.
	//
	// An error leaves out that object of a WATCH or a streamed list. It makes a LIST
	// fail, and the reflector reads the list again after a backoff. A DeltaFIFO has
	// then taken in the objects before the failed one: they reach the index and the
	// handlers, and an informer that has not synced yet does not sync. A RealFIFO, as
	// in stock informers, takes in the whole list or nothing.
	Transform cache.TransformFunc
	// Trace is reported to by every stage; may be nil.
	Trace *trace.Recorder
	// Backoff paces the reflector while LIST or WATCH fails; DefaultBackoff if nil.
	// Its Duration is positive.
	Backoff *wait.Backoff
	// Identifier and MetricsProvider publish client-go's informer metrics: the
	// depth and latency of the queue, and the resourceVersion of the index. Without
	// a name there are none, and none behind a DeltaFIFO: that has no metrics, and
	// the resourceVersion would mislead; see Informer.IndexResourceVersion.
	Identifier      cache.InformerNameAndResource
	MetricsProvider cache.InformerMetricsProvider
}

// Informer keeps an index of the objects of one resource, and tells handlers
// what changes in it. It is a cache.SharedIndexInformer with the behaviour of
// client-go's own; the package comment says how it works.
//
// Locks, in the order in which they are taken: mu, the dam's, the queue's own, handlers.mu,
// a backlog's own; source's comes last. Handlers are called with none of them.
type Informer struct {
	cfg       Config
	name      string
	clock     clock.Clock
	source    *source
	indexer   cache.Indexer
	handlers  dispatcher
	mutations cache.MutationDetector // a no-op unless KUBE_CACHE_MUTATION_DETECTOR is set
	tracer    tracer

	synced  chan struct{} // closed once the index holds the first list
	arrived atomic.Int64  // objects off the wire; wire counts them
	_       [64]byte      // The two are written by two goroutines: not in one cache line.
	applied atomic.Int64  // objects off the wire that are in the index

	mu                sync.Mutex
	started, stopped  bool
	transform         cache.TransformFunc                // fixed from the start
	watchErrorHandler cache.WatchErrorHandlerWithContext // fixed from the start
	resyncCheckPeriod time.Duration                      // fixed from the start
	reflector         *cache.Reflector                   // nil before the start
	wire              *wire                              // the same
}

var _ cache.SharedIndexInformer = (*Informer)(nil)

// New returns an Informer that is not running yet. Under a generated factory:
//
//	factory.InformerFor(&batchv1.Job{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
//		return pipeline.New(pipeline.Config{Resource: "jobs.batch", Object: &batchv1.Job{}, ResyncPeriod: resync, …})
//	})
func New(cfg Config) *Informer {
	i := &Informer{
		cfg:               cfg,
		name:              cfg.Resource,
		clock:             clock.RealClock{},
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
	i.handlers.clock = i.clock
	i.source = newSource(cfg.ListerWatcher, i.clock)
	indexers := cache.Indexers{} // ours: AddIndexers adds to it
	maps.Copy(indexers, cfg.Indexers)
	i.indexer = newIndexer(&i.cfg, indexers)
	return i
}

// Run is RunWithContext for those who have a channel.
func (i *Informer) Run(stopCh <-chan struct{}) {
	i.RunWithContext(wait.ContextForChannel(stopCh))
}

// RunWithContext runs the informer until ctx ends, and returns when all of its
// goroutines and all calls of handlers have ended. An informer runs only once.
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
		queue.Close() // wakes a pop that waits for deltas
	})
	wait.UntilWithContext(ctx, func(ctx context.Context) { i.pop(ctx, queue) }, time.Second)
	upstream.Wait()

	// The handlers stop last, when there is nobody left to tell them anything.
	i.stop()
	i.handlers.stop()
}

// start fixes the settings, and puts the parts together.
func (i *Informer) start(logger klog.Logger) (cache.Queue, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.started {
		return nil, errStarted
	}
	i.started = true
	queue := i.newQueue(logger)
	i.reflector = i.newReflector(logger, queue)
	i.handlers.start()
	return queue, nil
}

// awaitSync waits until the first Replace has been applied.
func (i *Informer) awaitSync(ctx context.Context, queue cache.Queue) {
	select {
	case <-ctx.Done():
	case <-queue.HasSyncedChecker().Done():
		// DeltaFIFO closes the channel as it pops the last object, which is then
		// still to be applied. It holds its lock meanwhile, and so HasSynced
		// returns only afterwards.
		queue.HasSynced()
		close(i.synced)
		i.handlers.indexSynced()
	}
}

func (i *Informer) stop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stopped = true
	i.wire.dam.abandon()
	i.source.release()
}

// IsStopped tells whether the informer ran, and ended. It accepts no handler
// then.
func (i *Informer) IsStopped() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.stopped
}

// AddEventHandler adds a handler with the informer's resync period and the
// global logger.
func (i *Informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod adds a handler that wants to be told of every
// object again each resyncPeriod; not at all if that is zero.
func (i *Informer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, resyncPeriod time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{ResyncPeriod: &resyncPeriod})
}

// AddEventHandlerWithOptions adds a handler. Before the start, the shortest
// resync period that any handler asks for becomes the one at which the informer
// checks whether resyncs are due; later on, that is the lower limit.
func (i *Informer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stopped {
		return nil, fmt.Errorf("handler %v was not added to shared informer because it %w", handler, errStopped)
	}
	logger, requested := klog.Background(), i.cfg.ResyncPeriod
	if options.Logger != nil {
		logger = *options.Logger
	}
	if options.ResyncPeriod != nil {
		requested = *options.ResyncPeriod
	}
	if requested > 0 && requested < minimumResyncPeriod {
		logger.Info("Raised the handler's resync period to the minimum", "resyncPeriod", requested, "minimum", minimumResyncPeriod)
		requested = minimumResyncPeriod
	}
	if requested > 0 && requested < i.resyncCheckPeriod && !i.started {
		i.resyncCheckPeriod = requested
	}

	l := newListener(handler, logger, i.nameWithHandler(handler))
	l.resyncPeriod = resyncPeriod(logger, requested, i.resyncCheckPeriod)
	i.handlers.join(l, i.indexer)
	return l, nil
}

// RemoveEventHandler removes a handler. Its call may still be under way;
// cache.ShutDownEventHandler waits for that. Removing it twice is harmless.
func (i *Informer) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	l, ok := handle.(*listener)
	if !ok {
		return fmt.Errorf("invalid key type %T", handle)
	}
	i.handlers.leave(l)
	return nil
}

// GetStore returns the index.
func (i *Informer) GetStore() cache.Store { return i.indexer }

// GetIndexer returns the index. It is for reading: what else writes to it is not
// told to handlers.
func (i *Informer) GetIndexer() cache.Indexer { return i.indexer }

// AddIndexers adds what the index can be searched by; objects in it are indexed
// at once. Not after the informer has stopped.
func (i *Informer) AddIndexers(indexers cache.Indexers) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stopped {
		return fmt.Errorf("indexer was not added because it %w", errStopped)
	}
	return i.indexer.AddIndexers(indexers)
}

// SetTransform replaces Config.Transform. Not after the start.
func (i *Informer) SetTransform(transform cache.TransformFunc) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.started {
		return errStarted
	}
	i.transform = transform
	return nil
}

// SetWatchErrorHandler is SetWatchErrorHandlerWithContext for those who need
// none.
func (i *Informer) SetWatchErrorHandler(handler cache.WatchErrorHandler) error {
	return i.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector, err error) { handler(r, err) })
}

// SetWatchErrorHandlerWithContext sets who is told when a LIST or WATCH fails; nil
// is cache.DefaultWatchErrorHandler, which logs it. Not after the start.
func (i *Informer) SetWatchErrorHandlerWithContext(handler cache.WatchErrorHandlerWithContext) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.started {
		return errStarted
	}
	if handler == nil {
		handler = cache.DefaultWatchErrorHandler
	}
	i.watchErrorHandler = handler
	return nil
}

// HasSynced tells whether the index holds all of the first list. A handler may
// not have been told of all of it yet: see its registration's HasSynced.
func (i *Informer) HasSynced() bool { return cache.IsDone(i.HasSyncedChecker()) }

// HasSyncedChecker is HasSynced for those who want to wait.
func (i *Informer) HasSyncedChecker() cache.DoneChecker { return syncedChecker{i} }

type syncedChecker struct{ i *Informer }

func (c syncedChecker) Name() string          { return fmt.Sprintf("SharedIndexInformer %T", c.i.cfg.Object) }
func (c syncedChecker) Done() <-chan struct{} { return c.i.synced }

// nameWithHandler returns what client-go's own informer calls the HasSyncedChecker
// of a handler in logs. Only client-go can name a handler, so a stock informer,
// which never runs, registers it and gives the name.
func (i *Informer) nameWithHandler(handler cache.ResourceEventHandler) string {
	stock := cache.NewSharedInformer(nil, i.cfg.Object, 0)
	registration, err := stock.AddEventHandler(handler)
	if err != nil { // It has not stopped.
		return i.HasSyncedChecker().Name()
	}
	return registration.HasSyncedChecker().Name()
}

// LastSyncResourceVersion is how far the reflector has read; "" before the start
// and until the first list is complete. The index may be behind.
func (i *Informer) LastSyncResourceVersion() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.reflector == nil {
		return ""
	}
	return i.reflector.LastSyncResourceVersion()
}

// IndexResourceVersion is how far the index has come: it holds the outcome of
// every change up to this resourceVersion. It is what the stock informer gives
// as GetStore().LastStoreSyncResourceVersion().
//
// It is "", unknown, with a DeltaFIFO, which does not keep the order between
// objects. What holds with both queues is the order for each object: a write has
// been seen once the index has its object at that resourceVersion or a later one.
func (i *Informer) IndexResourceVersion() string { return i.indexer.LastStoreSyncResourceVersion() }

// GetController returns what older code asks for HasSynced. Running it does
// nothing.
func (i *Informer) GetController() cache.Controller { return controller{i} }

type controller struct{ *Informer }

func (controller) Run(<-chan struct{})            {}
func (controller) RunWithContext(context.Context) {}

// Name returns what the informer is called in traces.
func (i *Informer) Name() string { return i.tracer.source }

// Kind returns the kind of the informer's objects, such as "Job".
func (i *Informer) Kind() string { return i.tracer.kind }

// Queue returns which delta queue the informer is built on.
func (i *Informer) Queue() Queue { return i.cfg.Queue }

// Stats is a snapshot of what is under way in an Informer.
type Stats struct {
	// Arrived is the number of objects that have come off the wire so far, and Applied of
	// those of them that the index has taken in.
	Arrived, Applied int64
	// Queued is the number of objects that came off the wire and are not in the
	// index yet. An object counts as often as it came. With a DeltaFIFO, a
	// deletion of something that was not there counts for good.
	Queued int
	// Handlers are in order of registration.
	Handlers []HandlerStats
}

// HandlerStats is a snapshot of one handler.
type HandlerStats struct {
	// Handler is what it calls itself, if it is a fmt.Stringer, or else its Go type.
	Handler string
	// Pending is the number of notifications that it has not finished.
	Pending int
	// Synced is its registration's HasSynced.
	Synced bool
}

// Stats takes a snapshot. It waits while deltas are applied, and is cheap enough
// for every refresh of a page.
func (i *Informer) Stats() Stats {
	i.handlers.mu.Lock()
	defer i.handlers.mu.Unlock()
	stats := Stats{Applied: i.applied.Load(), Arrived: i.arrived.Load(), Handlers: make([]HandlerStats, len(i.handlers.listeners))}
	stats.Queued = max(int(stats.Arrived-stats.Applied), 0)
	for n, l := range i.handlers.listeners {
		stats.Handlers[n] = HandlerStats{Handler: l.name(), Pending: int(l.backlog.pending.Load()), Synced: l.HasSynced()}
	}
	return stats
}
