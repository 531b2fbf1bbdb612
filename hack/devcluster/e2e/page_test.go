// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	batchv1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/inspect"
)

// TestPage opens the page of an operator with all five resources in a browser. It saves screenshots in bin/artifacts.
func TestPage(t *testing.T) {
	b := browse(t)
	s := show(t, b)
	s.applyExamples(t)
	// The cases run one after the other: they hold and measure the same operator.
	for _, test := range []struct {
		name string
		run  func(*testing.T, *shown)
	}{
		{"the page shows all five resources, and updates their counts", testSections},
		{"the page follows an Application from apply to Ready", testFollowed},
		{"a held delta queue fills, and drains after its release", testHeldQueue},
		{"the keyboard alone is enough to use the page", testKeyboard},
		{"on a phone, the page cuts nothing off", testPhone},
		{"all text is readable in the light and in the dark theme", testThemes},
		{"on a laptop, nothing overlaps, and a controller fits beside the life of an object", testLaptop},
		{"the offered command makes a dot move", testOffer},
		{"axe-core finds no violation", testAxe},
		{"up to 2,000 changes a second", testFlood},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, s) })
	}
}

// shown is an operator with its page.
type shown struct {
	*world
	b     *browser
	flood *flood
	ns    string
	url   string // URL of the page
}

// show starts a cluster, an ECS simulator and an operator whose queues users can hold.
func show(t *testing.T, b *browser) *shown {
	t.Helper()
	w := start(t, cluster.Config{})
	account := w.shippedAccount(t)
	ecs, f := simulate(t, w, account), w.flood(t, account)
	address := freeAddress(t)
	args := []string{
		"--kubeconfig", f.kubeconfig, "--ecs-endpoint", ecs.url, "--inspect-bind-address", address, "--inspect-breakpoints",
	}
	cmd := exec.Command(binary(t), args...)
	cmd.Env = append(withoutCloud(), "ALIBABA_CLOUD_ACCESS_KEY_ID="+cloudKeyID, "ALIBABA_CLOUD_ACCESS_KEY_SECRET="+cloudKeySecret)
	follow(t, cmd, args).waitFor("Started controller")
	return &shown{world: w, b: b, flood: f, ns: w.namespace(t), url: "http://" + address + "/inspect/"}
}

// resources are the five resources, by controller.
var resources = map[string]struct{ informer, file string }{
	"apiexamplea":  {"apiexampleas.groupa.k8s.zhuang.com", "apiexamplea.yaml"},
	"application":  {"applications.app.aiops.org", "application-tls.yaml"},
	"mycronjob":    {"mycronjobs.batch.wzj.kubebuilder.io", "mycronjob.yaml"},
	"rediscluster": {"redisclusters.bytewang123-redis.wzj.kubebuilder.io", "rediscluster.yaml"},
	"ecsinstance":  {"ecsinstances.alibabacloud.zhouzhengxi.com", "ecsinstance.yaml"},
}

// applyExamples applies one object of each resource. It pauses the RedisCluster, since simulated Pods do not answer.
func (s *shown) applyExamples(t *testing.T) {
	t.Helper()
	for controller, r := range resources {
		file := examplesDir + r.file
		if controller == "rediscluster" {
			paused, err := s.kubectl(t, "annotate", "--local", "-f", file, glassback.AnnotationPaused+"=true", "--output=yaml")
			if err != nil {
				t.Fatalf("kubectl annotate: %v\n%s", err, paused)
			}
			file = filepath.Join(t.TempDir(), r.file)
			s.must(t, os.WriteFile(file, []byte(paused), 0o600))
		}
		s.apply(t, file)
	}
}

func (s *shown) apply(t *testing.T, file string) {
	t.Helper()
	if out, err := s.kubectl(t, "apply", "--namespace", s.ns, "-f", file); err != nil {
		t.Fatalf("kubectl apply -f %s: %v\n%s", file, err, out)
	}
}

// open opens the page. A place is the part of the URL after the #.
func (s *shown) open(t *testing.T, place string) *tab {
	t.Helper()
	return s.b.open(t, s.url+"#"+place)
}

// overview reads the overview of the operator as the page does.
func (s *shown) overview(ctx context.Context) (*inspect.Overview, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"api/overview", http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	o := &inspect.Overview{}
	return o, json.NewDecoder(response.Body).Decode(o)
}

// informer returns an informer in the overview.
func (s *shown) informer(t *testing.T, id string) inspect.Informer {
	t.Helper()
	o, err := s.overview(t.Context())
	s.must(t, err)
	n := slices.IndexFunc(o.Informers, func(i inspect.Informer) bool { return i.ID == id })
	if n < 0 {
		t.Fatalf("the overview has no informer %s", id)
	}
	return o.Informers[n]
}

// gear returns the selector for a gear of the picture.
func gear(name, id string) string { return fmt.Sprintf("[data-gear=%q][data-id=%q]", name, id) }

func testSections(t *testing.T, s *shown) {
	p := s.open(t, "/")
	p.until(pagePatience, "document.getElementById('connection').dataset.state === 'live'")
	for controller, r := range resources {
		section := fmt.Sprintf("[data-section=%q] ", controller)
		for _, name := range []string{"wire", "queue", "index", "handlers"} {
			p.until(pagePatience, visible(section+gear(name, r.informer)))
		}
		for _, name := range []string{"workqueue", "sync"} {
			p.until(pagePatience, visible(section+gear(name, controller)))
		}
		count := textOf(section + gear("index", r.informer) + " .gear-value")
		p.until(pagePatience, count+" === '1'", count)
	}
	o, err := s.overview(t.Context())
	s.must(t, err)
	if got, want := ask[int](p, "document.querySelectorAll('[data-section] [data-gear=index]').length"), len(o.Informers); got != want {
		t.Errorf("the page shows %d indexes, but the operator has %d", got, want)
	}
	p.shoot("first-visit")
	p.click("#ideas-read")
	p.shootAll("all-five")

	// Another object appears as a dot in its lane.
	p.run(`window.dots = 0;
		new MutationObserver((all) => { dots += all.flatMap((m) => [...m.addedNodes]).filter((n) => n.matches?.('.dot')).length; })
			.observe(document.querySelector('[data-section=apiexamplea]'), { childList: true, subtree: true })`)
	s.apply(t, examplesDir+"apiexamplea-jimmy.yaml")
	count := textOf(gear("index", resources["apiexamplea"].informer) + " .gear-value")
	p.until(pagePatience, count+" === '2' && dots > 0", count, "dots")
}

func testFollowed(t *testing.T, s *shown) {
	p := s.open(t, "/")
	count := textOf(gear("index", resources["application"].informer) + " .gear-value")
	p.until(pagePatience, count+" === '1'", count)
	s.apply(t, examplesDir+"application.yaml")
	p.until(pagePatience, count+" === '2'", count)
	name := s.ns + "/application-sample"
	p.press("/application-sam")
	const chosen = "#search-results [role=option][aria-selected=true]"
	p.until(pagePatience, textOf(chosen)+" === "+literal("Application "+name), textOf("#search-results"))
	p.shoot("search")
	p.press(kb.Enter)
	p.until(pagePatience, "location.hash === "+literal("#/object/Application/"+name), "location.hash")

	for pass, stages := range map[string][]string{
		".pass-change": {"wire", "queue", "index", "dispatch", "enqueue"},
		".pass-sync":   {"sync", "write", "done"},
	} {
		selector := "#life " + pass
		for _, stage := range stages {
			selector += fmt.Sprintf(":has([data-stage=%s])", stage)
		}
		p.until(pagePatience, visible(selector), textOf("#life"))
	}
	p.until(pagePatience, `[...document.querySelectorAll('#life .pass-change .changes dt')]
		.some((dt) => dt.innerText === 'status.conditions[Ready]' && dt.nextElementSibling.querySelector('ins')?.innerText.startsWith('True'))`,
		textOf("#life"))
	p.until(pagePatience, visible(because("Deployment/"+name)), textOf("#life"))
	p.shoot("life-of-an-application")

	// The causes of a MyCronJob's syncs are its Jobs. The page shows the life of a Job too.
	p.run("location.hash = " + literal("#/object/MyCronJob/"+s.ns+"/mycronjob-sample"))
	cause := because("Job/" + s.ns + "/mycronjob-sample-")
	p.until(2*pagePatience, visible(cause), textOf("#life")) // The MyCronJob creates a Job every 5 seconds.
	p.shoot("life-of-a-mycronjob")
	job := ask[string](p, fmt.Sprintf("(() => { const a = document.querySelector(%s); a.click(); return a.hash; })()", literal(cause)))
	p.until(pagePatience, "location.hash === "+literal(job)+" && "+visible("#life .pass-change .current"), "location.hash", textOf("#panel"))
	p.shoot("life-of-a-job")
}

// because returns the selector for a link to the object that has caused a sync.
func because(object string) string {
	return fmt.Sprintf("#life .pass-sync :is(.why, .causes) a[href^='#/object/%s']", object)
}

// jobs is the informer whose queue the test holds.
const jobs = "jobs.batch(mycronjob)"

func testHeldQueue(t *testing.T, s *shown) {
	audit := s.audit(t, s.ns)
	const often = "often"
	s.create(t, s.ns, often, func(m *batchv1.MyCronJob) {
		m.Spec.IntervalSeconds, m.Spec.MissedRunPolicy = ptr.To[int32](1), batchv1.AllMissed
	})
	p := s.open(t, "/")
	p.click("#ideas-read")
	p.click(gear("queue", jobs))
	p.click("#panel [data-action=hold]")
	state := fmt.Sprintf("document.querySelector(%s).dataset.state", literal(gear("queue", jobs)))
	p.until(pagePatience, state+" === 'held'", state)
	before := s.informer(t, jobs)

	// The API server continues to send events, so that the queue fills. No event reaches the index.
	kept := "Number(" + textOf(gear("queue", jobs)+" .gear-value") + ")"
	p.until(pagePatience, kept+" >= 5", kept, textOf("#panel"))
	some := ask[int](p, kept)
	p.until(pagePatience, fmt.Sprintf("%s > %d", kept, some), kept)
	p.until(pagePatience, visible("#panel .items .deltas .verb-Added")+" && "+visible("#panel .items .deltas .verb-Updated"), textOf("#panel"))
	p.shoot("held")
	during := s.informer(t, jobs)
	if during.Applied != before.Applied || during.Objects != before.Objects || during.QueueHeld == nil || during.QueueHeld.Kept < some {
		t.Errorf("while the queue was held, the informer changed from %+v to %+v", before, during)
	}

	p.click("#panel [data-action=release]")
	p.until(pagePatience, kept+" === 0 && "+state+" !== 'held'", kept, state)
	p.shoot("drained")
	s.caughtUp(t, audit, often)
}

// caughtUp waits until a MyCronJob with a Job every second has run each of its slots once. This includes slots that were due while the
// operator did not get the events of its Jobs.
func (s *shown) caughtUp(t *testing.T, audit *audit, name string) {
	t.Helper()
	s.patch(t, s.ns, name, `{"spec":{"suspend":true}}`)
	eventually(t, pagePatience, func(ctx context.Context) error {
		m, err := s.get(ctx, s.ns, name)
		if err != nil {
			return err
		}
		if m.Status.ObservedGeneration != m.Generation || m.Status.Active != 0 {
			return fmt.Errorf("the status is %+v", m.Status)
		}
		ran, slots := audit.of(name), m.Status.AccountedTime.Unix()-m.CreationTimestamp.Unix()
		if len(ran) != int(slots) || m.Status.MissedTotal != 0 {
			return fmt.Errorf("%d slots ran and %d are counted as missed, of %d", len(ran), m.Status.MissedTotal, slots)
		}
		return nil
	})
	audit.mu.Lock()
	defer audit.mu.Unlock()
	for job, uids := range audit.uids {
		if len(uids) > 1 {
			t.Errorf("Job %s was created %d times", job, len(uids))
		}
	}
}

// focused is the expression for the element with the focus.
const focused = "(document.activeElement.dataset.gear ? document.activeElement.dataset.gear + ' of ' + document.activeElement.dataset.id " +
	": document.activeElement.id || document.activeElement.tagName)"

func testKeyboard(t *testing.T, s *shown) {
	p := s.open(t, "/")
	p.until(pagePatience, visible(gear("index", jobs)))
	const onGear = "document.activeElement.matches('button.gear:focus-visible')"
	for n := 0; !ask[bool](p, onGear); n++ {
		if n == 30 {
			t.Fatalf("after 30 presses of Tab, the focus is on %s", ask[string](p, focused))
		}
		p.press(kb.Tab)
	}
	first := ask[string](p, focused)
	p.press(kb.ArrowRight)
	p.until(pagePatience, onGear+" && "+focused+" !== "+literal(first), focused)
	p.press(kb.ArrowDown)
	at := ask[string](p, focused)
	p.shoot("focus")

	p.press(kb.Enter)
	p.until(pagePatience, visible("#panel")+" && document.getElementById('panel').contains(document.activeElement)", focused, "location.hash")
	if hash := ask[string](p, "location.hash"); !strings.HasPrefix(hash, "#/gear/") {
		t.Errorf("Enter on %s opens %s", at, hash)
	}
	p.press(kb.Escape)
	p.until(pagePatience, "!"+visible("#panel")+" && "+focused+" === "+literal(at), focused)

	p.press("?")
	p.until(pagePatience, visible("dialog#keys[open]"))
	p.press(kb.Escape)
	p.until(pagePatience, "!document.querySelector('dialog[open]')")
	p.press("/")
	p.until(pagePatience, focused+" === 'search'", focused)
	p.press(kb.Escape)
	p.press(" ")
	p.until(pagePatience, "document.body.matches('.paused')", focused)
	p.press(" ")
	p.until(pagePatience, "document.body.matches(':not(.paused)')", focused)
}

// beyondEdges finds elements outside of the window that the user cannot scroll to.
const beyondEdges = `[...document.body.querySelectorAll('*')].filter((e) => {
	if (e.closest('.vh, .skip, svg') || !e.checkVisibility()) return false;
	for (let a = e.parentElement; a && a !== document.body; a = a.parentElement) {
		if (getComputedStyle(a).overflowX !== 'visible') return false;
	}
	const { left, right, width } = e.getBoundingClientRect();
	return width > 0 && (left < -1 || right > innerWidth + 1);
}).map((e) => e.tagName + '#' + e.id + '.' + e.className)`

// cutOff finds buttons that are narrower than their content.
const cutOff = `[...document.querySelectorAll('button')].filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1).map((e) ` +
	`=> e.title || e.innerText)`

// overlaps finds parts of gears that overlap other parts.
const overlaps = `[...new Set([...document.querySelectorAll('button.gear')].flatMap((gear) => {
	const boxes = [...gear.querySelectorAll('.cog, .gear-title, .gear-value, .gear-unit, .gear-extra, .pips')]
		.filter((e) => e.checkVisibility({ visibilityProperty: true }))
		.flatMap((e) => {
			const what = document.createRange();
			what.selectNodeContents(e);
			const rects = e.matches('.cog') ? e.getClientRects() : what.getClientRects();
			return [...rects].map((r) => ({ name: e.className.baseVal ?? e.className, r }));
		});
	return boxes.flatMap((a, n) => boxes.slice(n + 1).filter((b) => a.name !== b.name &&
		a.r.left + 1 < b.r.right && b.r.left + 1 < a.r.right &&
		a.r.top + 4 < b.r.bottom && b.r.top + 4 < a.r.bottom).map((b) => gear.dataset.gear + ': ' + a.name + ' and ' + b.name));
}))]`

// places are addresses of the page with the texts that it shows there.
func (s *shown) places() map[string]string {
	return map[string]string{
		"picture":   "/",
		"queue":     "/gear/queue/" + jobs,
		"index":     "/gear/index/" + jobs + "?by=namespace",
		"workqueue": "/gear/workqueue/mycronjob",
		"sync":      "/gear/sync/mycronjob",
		"life":      "/object/MyCronJob/" + s.ns + "/mycronjob-sample",
	}
}

// goTo goes to a place, and waits until its content is loaded.
func (p *tab) goTo(place string) {
	p.t.Helper()
	p.run("location.hash = '#/'")
	p.until(pagePatience, visible(gear("index", jobs))+" && !"+visible("#panel"))
	if place != "/" {
		p.run("location.hash = " + literal("#"+place))
		p.until(pagePatience, "document.querySelector('#panel .facts dd, #panel .items li, #life .pass')", textOf("#panel"))
	}
}

func testPhone(t *testing.T, s *shown) {
	const width = 390
	p := s.b.open(t, s.url, phone(width, 844))
	for name, place := range s.places() {
		p.goTo(place)
		p.shoot("phone-" + name)
		if got := ask[[]int](p, "[innerWidth, document.scrollingElement.scrollWidth]"); got[0] != width || got[1] > width {
			t.Errorf("%s: the window is %d wide and the page %d, want %d", name, got[0], got[1], width)
		}
		if beyond := ask[[]string](p, beyondEdges); len(beyond) > 0 {
			t.Errorf("%s: these elements are beyond the edges: %q", name, beyond)
		}
		if cut := ask[[]string](p, cutOff); len(cut) > 0 {
			t.Errorf("%s: the texts of these buttons are cut off: %q", name, cut)
		}
		if over := ask[[]string](p, overlaps); len(over) > 0 {
			t.Errorf("%s: parts overlap in %q", name, over)
		}
	}
	p.goTo("/")
	p.shootAll("phone-all")
}

func testThemes(t *testing.T, s *shown) {
	grounds := map[string]string{}
	const ground = "getComputedStyle(document.body).backgroundColor"
	for _, name := range []string{"light", "dark"} {
		p := s.b.open(t, s.url, theme(name))
		for what, place := range s.places() {
			p.goTo(place)
			p.shoot(name + "-" + what)
			p.readable(t, name+" "+what)
		}
		p.press("?")
		p.until(pagePatience, visible("dialog#keys[open]"))
		p.shoot(name + "-keys")
		p.readable(t, name+" keys")
		p.press(kb.Escape)
		grounds[name] = ask[string](p, ground)
	}
	if grounds["light"] == grounds["dark"] {
		t.Errorf("the light and the dark theme have the same background %s", grounds["light"])
	}

	// A button changes to another theme than the system's.
	p := s.b.open(t, s.url, theme("light"))
	p.until(pagePatience, visible(gear("index", jobs)))
	for range 2 {
		p.click("#theme")
	}
	p.until(pagePatience, ground+" === "+literal(grounds["dark"]), ground, textOf("#theme"))
	p.do(chromedp.Reload())
	p.until(pagePatience, ground+" === "+literal(grounds["dark"]), ground, textOf("#theme"))
}

// faint finds texts whose contrast to their background is below 4.5, the minimum of WCAG 2 for text of this size. Disabled elements may
// have less.
const faint = `(() => {
	const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
	const rgba = (color) => {
		canvas.clearRect(0, 0, 1, 1);
		canvas.fillStyle = color;
		canvas.fillRect(0, 0, 1, 1);
		const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
		return [r, g, b, a / 255];
	};
	const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
	const behind = (e) => {
		const layers = [];
		for (let a = e; a; a = a.parentElement) {
			const layer = rgba(getComputedStyle(a).backgroundColor);
			layers.push(layer);
			if (layer[3] === 1) break;
		}
		return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255, 1]);
	};
	const opacity = (e) => e ? Number(getComputedStyle(e).opacity) * opacity(e.parentElement) : 1;
	const luminance = (color) => {
		const [r, g, b] = color.map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const contrast = (e, color) => {
		const ground = behind(e);
		const [r, g, b, a] = rgba(color);
		const [x, y] = [luminance(over([r, g, b, a * opacity(e)], ground)), luminance(ground)].sort((p, q) => q - p);
		return (x + 0.05) / (y + 0.05);
	};
	const found = new Map();
	let looked = 0;
	for (const e of document.body.querySelectorAll('*')) {
		if (e.closest('.vh, .skip, .server-label, :disabled, option') ||
			!e.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
		const svg = e.closest('svg');
		if (svg && e.tagName !== 'text') continue;
		let color = '';
		if ([...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim())) color = getComputedStyle(e)[svg ? 'fill' : 'color'];
		else if (e.placeholder && !e.value) color = getComputedStyle(e, '::placeholder').color;
		if (!color) continue;
		if (svg && opacity(e) < 1) continue; // The text is fading.
		looked++;
		const ratio = contrast(e, color);
		if (ratio < 4.5) found.set(e.tagName + '.' + (e.className.baseVal ?? e.className),
			ratio.toFixed(2) + ' ' + (e.textContent || e.placeholder).trim().slice(0, 30));
	}
	return { looked, found: [...found].map(([what, ratio]) => what + ' ' + ratio) };
})()`

// readable fails the test if a visible text has too little contrast.
func (p *tab) readable(t *testing.T, where string) {
	t.Helper()
	got := ask[struct {
		Looked int      `json:"looked"`
		Found  []string `json:"found"`
	}](p, faint)
	if got.Looked < 20 || len(got.Found) > 0 {
		t.Errorf("%s: of %d texts, these have too little contrast: %q", where, got.Looked, got.Found)
	}
}
