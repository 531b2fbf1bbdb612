// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	cdplog "github.com/chromedp/cdproto/log"
	cdpnetwork "github.com/chromedp/cdproto/network"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/glassback/glassback/pkg/must"
)

// chromiums are the names of the program: see hack/browser.sh.
var chromiums = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

// pagePatience is the longest time that a page may take to show the present state, on a busy machine.
const pagePatience = 20 * time.Second

// browser is a headless Chromium.
type browser struct{ ctx context.Context }

// browse starts a browser that ends with the test. Without a browser, it skips the test.
func browse(t *testing.T) *browser {
	t.Helper()
	program := ""
	for _, name := range chromiums {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Skip("SKIPPED, the page was not tested in a browser: there is no chromium")
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program), chromedp.WSURLReadTimeout(time.Minute), chromedp.WindowSize(1440, 1000),
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

	mu         sync.Mutex
	complaints []string
	asked      []string // addresses
	expected   func(complaint string) bool
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
		if a == nil {
			continue
		}
		all = append(all, string(a.Value)+a.Description)
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
	must.Succeed(p.t, p.try(steps...))
}

func (p *tab) try(steps ...step) error {
	ctx, cancel := context.WithTimeout(p.ctx, 2*pagePatience)
	defer cancel()
	return chromedp.Do(ctx, steps...)
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
	ctx, cancel := context.WithTimeout(p.ctx, 2*pagePatience)
	defer cancel()
	return chromedp.Run(ctx, action)
}

// until waits until an expression is true. If this takes too long, until prints the values of the other expressions.
func (p *tab) until(patience time.Duration, expression string, instead ...string) {
	p.t.Helper()
	eventually(p.t, patience, func(context.Context) error {
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
	p.until(pagePatience, visible(selector))
	p.do(chromedp.Click(chromedp.CSS(selector)))
}

// press presses keys one after the other, as a user does. The element with the focus gets the text, unless the page handles a key. Special
// keys, such as kb.Tab, are allowed.
func (p *tab) press(keys string) {
	p.t.Helper()
	for _, r := range keys {
		for _, e := range oneStroke(r) {
			p.do(tell(input.DispatchKeyEvent, *e))
		}
	}
}

// oneStroke returns the events of one key: the key goes down, enters its text, and goes up.
func oneStroke(r rune) []*input.DispatchKeyEventParams {
	events := kb.Encode(r)
	for n, e := range events {
		if e.Type == kb.KeyChar {
			events[0].Text = e.Text
			return slices.Delete(events, n, n+1)
		}
	}
	return events
}

// shoot saves a screenshot of the window.
func (p *tab) shoot(name string) { p.keep(name, chromedp.CaptureScreenshot()) }

// shootAll saves a screenshot of the whole page.
func (p *tab) shootAll(name string) { p.keep(name, chromedp.FullScreenshot(100)) }

func (p *tab) keep(name string, shot chromedp.Action[[]byte]) {
	data, err := answer(p, shot)
	if err == nil {
		err = os.WriteFile(filepath.Join(p.artifacts, name+".png"), data, 0o644)
	}
	if err != nil {
		p.t.Errorf("save the screenshot %s: %v", name, err)
	}
}

// theme sets the color scheme of the user's system: light or dark.
func theme(name string) step {
	return tell(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	})
}

// phone gives the window the size of a phone.
func phone(width, height int64) step {
	return chromedp.Steps(
		tell(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: width, Height: height, DeviceScaleFactor: 2, Mobile: true,
		}),
		tell(emulation.SetTouchEmulationEnabled, emulation.SetTouchEmulationEnabledParams{Enabled: true}),
	)
}
