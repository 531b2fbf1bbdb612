// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	cdplog "github.com/chromedp/cdproto/log"
	cdpnetwork "github.com/chromedp/cdproto/network"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/inspect"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/pipeline"
	"github.com/glassback/glassback/pkg/trace"
)

// TestPage opens the page of an operator with all five resources in a browser. It saves screenshots in bin/artifacts.
func TestPage(t *testing.T) {
	b := browse(t)
	w := start(t, cluster.Config{})
	account := w.shippedAccount(t)
	address := freeAddress(t)
	args := []string{
		"--kubeconfig", account, "--ecs-endpoint", simulate(t, w, account).url, "--inspect-bind-address", address, "--inspect-breakpoints",
		"--ecs-own-credentials-namespaces=*",
	}
	cmd := exec.Command(binary(t), args...)
	cmd.Env = withCloud()
	follow(t, cmd, args).waitFor("Started controller")
	s := &shown{world: w, b: b, ns: w.namespace(t), url: "http://" + address + "/inspect/"}
	for controller, r := range resources {
		file := examplesDir + r.file
		if controller == "rediscluster" { // It is paused, since simulated Pods do not answer.
			paused := s.mustKubectl(t, "annotate", "--local", "-f", file, glassback.AnnotationPaused+"=true", "--output=yaml")
			file = filepath.Join(t.TempDir(), r.file)
			s.must(t, os.WriteFile(file, []byte(paused), 0o600))
		}
		s.apply(t, file)
	}
	// The cases run one after the other: they hold the same operator.
	for _, test := range []struct {
		name string
		run  func(*testing.T, *shown)
	}{
		{"the page shows all five resources, and updates their counts", testSections},
		{"the page follows an Application from apply to Ready", testFollowed},
		{"a held delta queue fills, and drains after its release", testHeldQueue},
		{"the keyboard alone is enough to use the page", testKeyboard},
		{"on a phone, the page cuts nothing off", testPhone},
		{"the offered command makes a dot move", testOffer},
		{"in the light and in the dark theme, axe-core finds no violation", testAxe},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, s) })
	}
}

// shown is an operator with its page.
type shown struct {
	*world
	b   *browser
	ns  string
	url string // URL of the page
}

// resources are the five resources, by controller.
var resources = map[string]struct{ informer, file string }{
	"apiexamplea":  {"apiexampleas.groupa.k8s.zhuang.com", "apiexamplea.yaml"},
	"application":  {"applications.app.aiops.org", "application-tls.yaml"},
	"mycronjob":    {"mycronjobs.batch.wzj.kubebuilder.io", "mycronjob.yaml"},
	"rediscluster": {"redisclusters.bytewang123-redis.wzj.kubebuilder.io", "rediscluster.yaml"},
	"ecsinstance":  {"ecsinstances.alibabacloud.zhouzhengxi.com", "ecsinstance.yaml"},
}

func (s *shown) apply(t *testing.T, file string) {
	t.Helper()
	s.mustKubectl(t, "apply", "--namespace", s.ns, "-f", file)
}

// open opens the page. A place is the part of the URL after the #.
func (s *shown) open(t *testing.T, place string) *tab {
	t.Helper()
	return s.b.open(t, s.url+"#"+place)
}

// gear returns the selector for a gear of the picture.
func gear(name, id string) string { return fmt.Sprintf("[data-gear=%q][data-id=%q]", name, id) }

// countDots counts the dots that appear in the section of a controller.
func (p *tab) countDots(controller string) {
	p.run(fmt.Sprintf(`window.dots = 0;
		new MutationObserver((all) => { dots += all.flatMap((m) => [...m.addedNodes]).filter((n) => n.matches?.('.dot')).length; })
			.observe(document.querySelector('[data-section=%s]'), { childList: true, subtree: true })`, controller))
}

func testSections(t *testing.T, s *shown) {
	p := s.open(t, "/")
	p.until("document.getElementById('connection').dataset.state === 'live'")
	for controller, r := range resources {
		section := fmt.Sprintf("[data-section=%q] ", controller)
		for _, name := range []string{"wire", "queue", "index", "handlers"} {
			p.until(visible(section + gear(name, r.informer)))
		}
		for _, name := range []string{"workqueue", "sync"} {
			p.until(visible(section + gear(name, controller)))
		}
		count := textOf(section + gear("index", r.informer) + " .gear-value")
		p.until(count+" === '1'", count)
	}
	p.shoot("first-visit")
	p.countDots("apiexamplea") // Another object appears as a dot in its lane.
	s.apply(t, examplesDir+"apiexamplea-jimmy.yaml")
	count := textOf(gear("index", resources["apiexamplea"].informer) + " .gear-value")
	p.until(count+" === '2' && dots > 0", count, "dots")
}

func testFollowed(t *testing.T, s *shown) {
	p := s.open(t, "/")
	count := textOf(gear("index", resources["application"].informer) + " .gear-value")
	p.until(count+" === '1'", count)
	s.apply(t, examplesDir+"application.yaml")
	p.until(count+" === '2'", count)
	name := s.ns + "/application-sample"
	p.press("/application-sam")
	p.until(textOf("#search-results [role=option][aria-selected=true]")+" === "+literal("Application "+name), textOf("#search-results"))
	p.press(kb.Enter)
	p.until("location.hash === "+literal("#/object/Application/"+name), "location.hash")
	for pass, stages := range map[string][]string{
		".pass-change": {"wire", "queue", "index", "dispatch", "enqueue"},
		".pass-sync":   {"sync", "write", "done"},
	} {
		selector := "#life " + pass
		for _, stage := range stages {
			selector += fmt.Sprintf(":has([data-stage=%s])", stage)
		}
		p.until(visible(selector), textOf("#life"))
	}
	p.until(`[...document.querySelectorAll('#life .pass-change .changes dt')]
		.some((dt) => dt.innerText === 'status.conditions[Ready]' && dt.nextElementSibling.querySelector('ins')?.innerText.startsWith('True'))`,
		textOf("#life"))
	p.until(visible(because("Deployment/"+name)), textOf("#life"))
	p.shoot("life-of-an-application")

	// The causes of a MyCronJob's syncs are its Jobs. The page shows the life of a Job too.
	p.run("location.hash = " + literal("#/object/MyCronJob/"+s.ns+"/mycronjob-sample"))
	cause := because("Job/" + s.ns + "/mycronjob-sample-")
	p.until(visible(cause), textOf("#life"))
	job := ask[string](p, fmt.Sprintf("(() => { const a = document.querySelector(%s); a.click(); return a.hash; })()", literal(cause)))
	p.until("location.hash === "+literal(job)+" && "+visible("#life .pass-change .current"), "location.hash", textOf("#panel"))
}

// because returns the selector for a link to the object that has caused a sync.
func because(object string) string {
	return fmt.Sprintf("#life .pass-sync :is(.why, .causes) a[href^='#/object/%s']", object)
}

// jobs is the informer whose queue the test holds. The sample creates a Job every five seconds.
const jobs = "jobs.batch(mycronjob)"

func testHeldQueue(t *testing.T, s *shown) {
	p := s.open(t, "/")
	p.click("#ideas-read")
	p.click(gear("queue", jobs))
	p.click("#panel [data-action=hold]")
	state := fmt.Sprintf("document.querySelector(%s).dataset.state", literal(gear("queue", jobs)))
	p.until(state+" === 'held'", state)
	kept := "Number(" + textOf(gear("queue", jobs)+" .gear-value") + ")"
	p.until(kept+" >= 3", kept, textOf("#panel"))
	p.until(visible("#panel .items .deltas .verb-Added")+" && "+visible("#panel .items .deltas .verb-Updated"), textOf("#panel"))
	p.shoot("held")
	p.click("#panel [data-action=release]")
	p.until(kept+" === 0 && "+state+" !== 'held'", kept, state)
}

// focused is the expression for the element with the focus.
const focused = "(document.activeElement.dataset.gear ? document.activeElement.dataset.gear + ' of ' + document.activeElement.dataset.id " +
	": document.activeElement.id || document.activeElement.tagName)"

func testKeyboard(t *testing.T, s *shown) {
	p := s.open(t, "/")
	p.until(visible(gear("index", jobs)))
	const onGear = "document.activeElement.matches('button.gear:focus-visible')"
	for n := 0; !ask[bool](p, onGear); n++ {
		if n == 30 {
			t.Fatalf("after 30 presses of Tab, the focus is on %s", ask[string](p, focused))
		}
		p.press(kb.Tab)
	}
	first := ask[string](p, focused)
	p.press(kb.ArrowRight)
	p.until(onGear+" && "+focused+" !== "+literal(first), focused)
	p.press(kb.ArrowDown)
	at := ask[string](p, focused)
	p.press(kb.Enter)
	p.until(visible("#panel")+" && document.getElementById('panel').contains(document.activeElement) && location.hash.startsWith('#/gear/')",
		focused, "location.hash")
	p.press(kb.Escape)
	p.until("!"+visible("#panel")+" && "+focused+" === "+literal(at), focused)
	p.press("?")
	p.until(visible("dialog#keys[open]"))
	p.press(kb.Escape)
	p.until("!document.querySelector('dialog[open]')")
	p.press("/")
	p.until(focused+" === 'search'", focused)
	p.press(kb.Escape)
	p.press(" ")
	p.until("document.body.matches('.paused')", focused)
	p.press(" ")
	p.until("document.body.matches(':not(.paused)')", focused)
}

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
	p.until(visible(gear("index", jobs)) + " && !" + visible("#panel"))
	if place != "/" {
		p.run("location.hash = " + literal("#"+place))
		p.until("document.querySelector('#panel .facts dd, #panel .items li, #life .pass')", textOf("#panel"))
	}
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

func testPhone(t *testing.T, s *shown) {
	const width = 390
	p := s.b.open(t, s.url, chromedp.Steps(
		tell(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: width, Height: 844, DeviceScaleFactor: 2, Mobile: true,
		}),
		tell(emulation.SetTouchEmulationEnabled, emulation.SetTouchEmulationEnabledParams{Enabled: true}),
	))
	for name, place := range s.places() {
		p.goTo(place)
		p.shoot("phone-" + name)
		if got := ask[[]int](p, "[innerWidth, document.scrollingElement.scrollWidth]"); got[0] != width || got[1] > width {
			t.Errorf("%s: the window is %d wide and the page %d, want %d", name, got[0], got[1], width)
		}
		if beyond := ask[[]string](p, beyondEdges); len(beyond) > 0 {
			t.Errorf("%s: these elements are beyond the edges: %q", name, beyond)
		}
	}
}

// testOffer runs the command that the page of one controller offers, and waits until a dot moves.
func testOffer(t *testing.T, s *shown) {
	p := s.open(t, "/controller/application")
	const command = "#offer-command"
	p.until(textOf(command)+"?.includes(' applications.app.aiops.org ')", textOf("#guide"))
	p.click("#offer-copy")
	p.until("['Copied', 'Selected'].includes("+textOf("#offer-copy")+")", textOf("#offer-copy"))
	p.countDots("application")
	line := strings.Replace(ask[string](p, textOf(command)), "$(date +%s)", "now", 1)
	words := strings.Fields(line)
	if words[0] != "kubectl" {
		t.Fatalf("the page offers %q", line)
	}
	s.mustKubectl(t, words[1:]...)
	p.until("dots > 0", "dots")
}

// violations is a script that runs axe-core. A violation is a rule, such as the contrast of text, with the first elements that break it.
const violations = `axe.run({ resultTypes: ['violations'] }).then(({ violations }) => violations.map((v) =>
	v.id + ' (' + v.impact + '), ' + v.help + ': ' + v.nodes.slice(0, 3).map((n) => n.target.join(' ') + ' ' + n.failureSummary).join('; ')))`

// testAxe runs axe-core, which hack/axe.sh installs, in both themes of the user's system. A button changes to the other theme.
func testAxe(t *testing.T, s *shown) {
	source, err := os.ReadFile(cmp.Or(os.Getenv("AXE_JS"), filepath.Join(root, "bin/tools/axe/node_modules/axe-core/axe.min.js")))
	if err != nil {
		t.Skipf("SKIPPED, accessibility was not checked: axe-core is not installed: %v", err)
	}
	grounds := map[string]string{}
	const ground = "getComputedStyle(document.body).backgroundColor"
	for _, name := range []string{"dark", "light"} {
		p := s.b.open(t, s.url, tell(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
		}))
		p.run(string(source))
		check := func(what string) {
			t.Helper()
			p.shoot(name + "-" + what)
			if found := ask[[]string](p, violations); len(found) > 0 {
				t.Errorf("%s, %s: %q", name, what, found)
			}
		}
		p.until(visible(gear("index", jobs)))
		check("first-visit")
		p.click("#ideas-read")
		for what, place := range s.places() {
			p.goTo(place)
			check(what)
		}
		p.goTo("/")
		p.press("?")
		p.until(visible("dialog#keys[open]"))
		check("keys")
		p.press(kb.Escape)
		p.press("/mycronjob")
		p.until(visible("#search-results [role=option]"))
		check("search")
		p.press(kb.Escape)
		if grounds[name] = ask[string](p, ground); name == "light" {
			p.click("#theme")
			p.click("#theme")
			p.until(ground+" === "+literal(grounds["dark"])+" && "+ground+" !== "+literal(grounds["light"]), ground, textOf("#theme"))
			p.do(chromedp.Reload())
			p.until(ground+" === "+literal(grounds["dark"]), ground, textOf("#theme"))
		}
	}
}

// inspectHere serves the page in this process. It shows an informer with one ConfigMap, without a cluster.
func inspectHere(t *testing.T, guard func(http.Handler) http.Handler) string {
	t.Helper()
	source, recorder := cachetesting.NewFakeControllerSource(), trace.NewRecorder(1024)
	source.Add(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "here", CreationTimestamp: metav1.Now()}})
	informer := pipeline.New(pipeline.Config{ListerWatcher: source, Object: &corev1.ConfigMap{}, Resource: "configmaps", Trace: recorder})
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		informer.Run(stop)
	}()
	handler, err := inspect.New(inspect.Config{
		Instance: "here", Trace: recorder, Informers: []inspect.Watched{{Informer: informer, Resource: "configmaps"}}, Guard: guard, Done: stop,
	})
	must.Succeed(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		close(stop)
		server.Close()
		<-stopped
	})
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("the informer does not sync")
	}
	return server.URL + "/inspect/"
}

// TestPageAsksForToken serves the page with authorization, so the page asks for a token. The browser stores the token nowhere.
func TestPageAsksForToken(t *testing.T) {
	light.parallel(t)
	const token = "e2e-token-of-the-reader"
	b := browse(t)
	url := inspectHere(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+token {
				w.WriteHeader(http.StatusUnauthorized)
				_ = json.NewEncoder(w).Encode(inspect.Problem{Error: "this token is not known"})
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	p := b.open(t, url+"#/gear/index/configmaps")
	refused := 0
	p.expected = func(complaint string) bool {
		is := strings.Contains(complaint, "status of 401")
		if is {
			refused++
		}
		return is
	}
	p.until(visible("dialog#auth[open]"))
	p.press("not-this-one" + kb.Enter)
	p.until(visible("dialog#auth[open]")+" && "+textOf("#auth-problem")+".includes('this token is not known')", textOf("#auth"))
	p.shoot("token-asks-again")
	p.press(token)
	p.click("#auth-submit")
	count := textOf(gear("index", "configmaps") + " .gear-value")
	p.until("!document.querySelector('dialog[open]') && "+count+" === '1'", count, textOf("#connection"))
	p.until(textOf("#panel")+".includes('default/here')", textOf("#panel"))

	kept := ask[string](p, `JSON.stringify([location.href, document.cookie, { ...localStorage }, { ...sessionStorage }, history.state,
		document.getElementById('token').value, document.documentElement.outerHTML])`)
	if strings.Contains(kept, token) {
		t.Errorf("the page keeps the token: %s", kept)
	}
	if databases := ask[int](p, "indexedDB.databases().then((all) => all.length)"); databases > 0 {
		t.Errorf("the page has %d databases", databases)
	}
	if all := p.heard(); len(all) > 0 || refused == 0 { // Otherwise this file would find no error in any page.
		t.Errorf("the browser has reported %q, and %d refused requests", all, refused)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.asked) == 0 || slices.ContainsFunc(p.asked, func(url string) bool { return strings.Contains(url, token) }) {
		t.Errorf("the page requested %q", p.asked)
	}
}

// TestPageOfARecording moves through the recording of docs/informer.md with the keyboard, without a cluster.
func TestPageOfARecording(t *testing.T) {
	light.parallel(t)
	b := browse(t)
	ctx, cancel := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, binary(t), "inspect", "../../../docs/informer/experiments.jsonl.gz", "--bind-address", "127.0.0.1:0")
	stdout, err := command.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, command.Start())
	t.Cleanup(func() {
		cancel()
		_ = command.Wait() // The error says that the test has killed the command.
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	must.Succeed(t, err)
	_, address, _ := strings.Cut(strings.TrimSpace(line), "The page is at ")
	p := b.open(t, address+"#/object/ApiExampleA/default/apiexamplea-jimmy")
	absent := func(complaint string) bool { // At the start of the recording, the object does not exist.
		return strings.Contains(complaint, "status of 404") && strings.Contains(complaint, "/api/life?")
	}
	p.expected = absent

	// The recording plays from the start. Controls that need a running operator are hidden.
	const moment, passes = `document.getElementById('moment')`, `document.querySelectorAll('#life .pass-sync').length`
	p.until(visible("#moment")+` && `+textOf("#connection")+` === 'Recording'`, textOf("#connection"))
	p.until(`Number(` + moment + `.value) > 0 && ` + moment + `.getAttribute('aria-valuetext').endsWith('after the start')`)
	p.until(`document.getElementById('live').hidden && document.getElementById('offer').hidden`)

	// The playback pauses. The keyboard moves to the end, where the first name is Jimmy again.
	p.click("#pause")
	p.run(moment + `.focus()`)
	p.press(kb.End)
	p.until(textOf("#life")+`?.includes('Greetings to Jimmy Song') && `+passes+` > 10`, textOf("#life"))
	p.shoot("the end")

	// The address opens the same moment in another browser, which is paused, too.
	p.until(`location.search.startsWith('?at=2')`, `location.href`)
	other := b.open(t, ask[string](p, `location.href`))
	other.expected = absent
	other.until(passes+` === `+fmt.Sprint(ask[int](p, passes))+` && `+moment+`.value === `+literal(ask[string](p, moment+`.value`)), passes)
	other.until(textOf("#pause")+` === 'Resume'`, textOf("#pause"))

	// The keyboard moves back to a moment before the first greeting, and forth. Then the recording plays, and the address has no moment.
	p.press(kb.Home)
	p.until(passes+` < 3`, textOf(".life-summary"))
	before := ask[float64](p, `Number(`+moment+`.value)`)
	p.press(kb.PageUp)
	p.until(`Number(`+moment+`.value) > `+fmt.Sprint(before), moment+`.value`)
	before = ask[float64](p, `Number(`+moment+`.value)`)
	p.click("#pause")
	p.until(`location.search === '' && Number(`+moment+`.value) > `+fmt.Sprint(before), moment+`.value`)
}

// browser is a headless Chromium.
type browser struct{ ctx context.Context }

// browse starts a browser that ends with the test. Without a browser, it skips the test.
func browse(t *testing.T) *browser {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} { // as in hack/browser.sh
		if path, err := exec.LookPath(name); err == nil {
			program = path
		}
	}
	if program == "" {
		t.Skip("SKIPPED, the page was not tested in a browser: there is no chromium")
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program), chromedp.WSURLReadTimeout(patience), chromedp.WindowSize(1440, 1000),
		chromedp.Headless, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
	}
	for _, flag := range []string{
		"disable-gpu", "disable-quic", "disable-background-networking", "disable-component-update", "disable-sync", "disable-default-apps",
		"disable-extensions", "disable-breakpad", "disable-dev-shm-usage",
	} {
		options = append(options, chromedp.Flag(flag, true))
	}
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // As root, Chromium does not start with a sandbox.
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		end()
		stop()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	return &browser{ctx}
}

// step is one action of a browser.
type step = chromedp.Action[chromedp.Void]

// tell is the step that sends a command of the DevTools and ignores the answer.
func tell[P, R any](command cdp.Command[P, R], params P) step {
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, command, params)
		return chromedp.Void{}, err
	}
}

// tab is one page in the browser. A request to another host, a refused request, or an error in a script fails the test.
type tab struct {
	t         *testing.T
	ctx       context.Context
	origin    string
	artifacts string
	expected  func(complaint string) bool

	mu         sync.Mutex
	complaints []string
	asked      []string // addresses
}

// open opens an address in a new tab with its own profile. It does the steps before it opens the address. The tab is closed when the test
// ends.
func (b *browser) open(t *testing.T, address string, before ...step) *tab {
	t.Helper()
	at, err := url.Parse(address)
	must.Succeed(t, err)
	ctx, end := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	p := &tab{t: t, ctx: ctx, origin: at.Scheme + "://" + at.Host + "/", artifacts: t.ArtifactDir()}
	t.Cleanup(func() {
		if t.Failed() {
			p.shoot("failed")
		}
		end()
		for _, complaint := range p.heard() {
			t.Errorf("the page at %s: %s", address, complaint)
		}
	})
	if err := chromedp.Listen(ctx, p.hear); err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	p.do(append(before, chromedp.Navigate(address))...)
	return p
}

// hear records all events of a page that are errors.
func (p *tab) hear(event any) {
	complaint := ""
	switch e := event.(type) {
	case *cdpnetwork.EventRequestWillBeSent:
		p.note(&p.asked, e.Request.URL)
		if !strings.HasPrefix(e.Request.URL, p.origin) && !strings.HasPrefix(e.Request.URL, "data:") {
			complaint = "asks " + e.Request.URL
		}
	case *cdpnetwork.EventWebSocketCreated:
		complaint = "connects to " + e.URL
	case *cdpruntime.EventExceptionThrown:
		complaint = "fails: " + e.ExceptionDetails.Text + " " + said([]*cdpruntime.RemoteObject{e.ExceptionDetails.Exception})
	case *cdpruntime.EventConsoleAPICalled:
		if e.Type == cdpruntime.ConsoleAPICalledTypeError || e.Type == cdpruntime.ConsoleAPICalledTypeWarning ||
			e.Type == cdpruntime.ConsoleAPICalledTypeAssert {
			complaint = "says " + said(e.Args)
		}
	case *cdplog.EventEntryAdded: // These include violations of the Content-Security-Policy.
		if e.Entry.Level == cdplog.EntryLevelError || e.Entry.Level == cdplog.EntryLevelWarning {
			complaint = fmt.Sprintf("%s: %s (%s)", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	}
	if complaint != "" {
		p.note(&p.complaints, complaint)
	}
}

func (p *tab) note(list *[]string, line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*list = append(*list, line)
}

func said(args []*cdpruntime.RemoteObject) string {
	var all []string
	for _, a := range args {
		if a != nil {
			all = append(all, string(a.Value)+a.Description)
		}
	}
	return strings.Join(all, " ")
}

// heard returns the unexpected records, and clears all records.
func (p *tab) heard() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.complaints
	p.complaints = nil
	if p.expected != nil {
		all = slices.DeleteFunc(all, p.expected)
	}
	return all
}

// do runs the steps, and fails the test at an error.
func (p *tab) do(steps ...step) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	must.Succeed(p.t, chromedp.Do(ctx, steps...))
}

// ask evaluates a JavaScript expression, and awaits it if it is a promise.
func ask[T any](p *tab, expression string) T {
	p.t.Helper()
	answer, err := answer(p, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return answer
}

// run runs JavaScript statements.
func (p *tab) run(statements string) {
	p.t.Helper()
	ask[bool](p, "{"+statements+"}; true")
}

func answer[T any](p *tab, action chromedp.Action[T]) (T, error) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, action)
}

// until waits until an expression is true. If this takes too long, until prints the values of the other expressions.
func (p *tab) until(expression string, instead ...string) {
	p.t.Helper()
	await(p.t, func(context.Context) error {
		is, err := answer(p, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if err != nil {
			return fmt.Errorf("%s: %w", expression, err)
		}
		if is {
			return nil
		}
		problem := expression + " is not true"
		for _, other := range instead {
			text, err := answer(p, chromedp.Evaluate[string]("JSON.stringify("+other+") ?? 'undefined'"))
			problem += fmt.Sprintf("; %s is %s", other, cmp.Or(text, fmt.Sprint(err)))
		}
		return errors.New(problem)
	})
}

// textOf returns the expression for the text of the first element that matches a selector.
func textOf(selector string) string {
	return fmt.Sprintf("document.querySelector(%s)?.innerText", literal(selector))
}

// visible returns the expression for whether a visible element matches a selector.
func visible(selector string) string {
	return fmt.Sprintf("document.querySelector(%s)?.checkVisibility()", literal(selector))
}

func literal(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // Marshal encodes every string.
	}
	return string(data)
}

func (p *tab) click(selector string) {
	p.t.Helper()
	p.until(visible(selector))
	p.do(chromedp.Click(chromedp.CSS(selector)))
}

// press presses keys one after the other, as a user does: each key goes down, enters its text, and goes up. The element with the focus gets
// the text, unless the page handles a key. Special keys, such as kb.Tab, are allowed.
func (p *tab) press(keys string) {
	p.t.Helper()
	for _, r := range keys {
		events := kb.Encode(r)
		if n := slices.IndexFunc(events, func(e *input.DispatchKeyEventParams) bool { return e.Type == kb.KeyChar }); n >= 0 {
			events[0].Text = events[n].Text
			events = slices.Delete(events, n, n+1)
		}
		for _, e := range events {
			p.do(tell(input.DispatchKeyEvent, *e))
		}
	}
}

// shoot saves a screenshot of the window.
func (p *tab) shoot(name string) {
	data, err := answer(p, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(p.artifacts, name+".png"), data, 0o644)
	}
	if err != nil {
		p.t.Errorf("save the screenshot %s: %v", name, err)
	}
}
