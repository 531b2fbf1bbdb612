// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp/kb"
)

// laptops are the sizes of windows, by name.
var laptops = map[string][2]int64{"1372": {1372, 800}, "1440": {1440, 900}}

// laptop sets the size of the window.
func laptop(size [2]int64) step {
	return tell(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: size[0], Height: size[1], DeviceScaleFactor: 1,
	})
}

// hidden finds texts of informers, such as kinds, that are cut off or outside of their gears.
const hidden = `[...document.querySelectorAll('button.gear')].flatMap((gear) => {
	const box = gear.getBoundingClientRect();
	return [...gear.querySelectorAll('.gear-value, .gear-wire .gear-unit')].filter((e) => e.checkVisibility()).filter((e) => {
		const text = document.createRange();
		text.selectNodeContents(e);
		const all = [...text.getClientRects()];
		return e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 || all.some((r) => r.left < box.left || r.right > box.right ||
			r.top < box.top - 1 || r.bottom > box.bottom + 1);
	}).map((e) => gear.dataset.gear + ' ' + gear.dataset.id + ': ' + e.innerText);
})`

// layered finds parts of the page that overlap each other, and elements below the panel.
const layered = `(() => {
	const parts = [...document.querySelectorAll('#bar, #guide > *, #stations > *, .controller')].filter((e) => e.checkVisibility());
	const all = parts.map((e) => {
		const content = document.createRange();
		content.selectNodeContents(e);
		const rects = e.matches('.controller, #bar') ? [e.getBoundingClientRect()] : [...content.getClientRects()];
		const name = e.id || e.dataset.station || e.dataset.section || e.className;
		return rects.filter((r) => r.width > 1 && r.height > 1).map((r) => ({ e, name, r }));
	}).flat();
	const panel = document.getElementById('panel');
	const edge = panel.checkVisibility() ? panel.getBoundingClientRect().left : innerWidth;
	const found = all.filter(({ r }) => r.right > edge + 1).map(({ name }) => name + ' is below the panel');
	for (const [n, a] of all.entries()) for (const b of all.slice(n + 1)) {
		if (a.e !== b.e && a.r.left + 1 < b.r.right && b.r.left + 1 < a.r.right && a.r.top + 1 < b.r.bottom && b.r.top + 1 < a.r.bottom) {
			found.push(a.name + ' and ' + b.name);
		}
	}
	return [...new Set(found)];
})()`

// scrolled is the expression for the heights of the page and of the window.
const scrolled = "[document.documentElement.scrollHeight, innerHeight]"

// testLaptop checks the page in a window of a laptop's size.
func testLaptop(t *testing.T, s *shown) {
	life := s.places()["life"]
	for name, size := range laptops {
		p := s.b.open(t, s.url, laptop(size))
		p.until(pagePatience, visible(gear("index", jobs))+" && "+visible("#offer"))
		check := func(what string) {
			t.Helper()
			if found := ask[[]string](p, layered); len(found) > 0 {
				t.Errorf("%s, %s: these parts of the page overlap: %q", name, what, found)
			}
			if found := ask[[]string](p, hidden); len(found) > 0 {
				t.Errorf("%s, %s: these texts are cut off: %q", name, what, found)
			}
			if found := ask[[]string](p, overlaps); len(found) > 0 {
				t.Errorf("%s, %s: these gears have parts that overlap: %q", name, what, found)
			}
		}
		check("a first visit")
		p.shoot("laptop-" + name + "-first")
		p.goTo(life)
		check("a first visit with a life")
		p.shoot("laptop-" + name + "-first-life")
		p.click("#ideas-read")
		check("without hints")

		// The page with one controller and the life of an object fits into the window without scrolling.
		for controller := range resources {
			p.run("location.hash = '#/'")
			section := fmt.Sprintf("[data-section=%q] ", controller)
			p.click(section + ".zoom")
			p.until(pagePatience, "document.querySelectorAll('[data-section]').length === 1 && "+visible(section+gear("sync", controller)))
			if hash := ask[string](p, "location.hash"); hash != "#/controller/"+controller {
				t.Errorf("%s, %s: the address is %s", name, controller, hash)
			}
			p.run("location.hash = " + literal("#"+life))
			p.until(pagePatience, visible("#life .pass")+" && "+visible("#offer"))
			p.until(pagePatience, "document.documentElement.scrollHeight <= innerHeight", scrolled)
			check(controller)
			p.shoot("laptop-" + name + "-" + controller)
			p.press(kb.Escape)
			p.until(pagePatience, "!"+visible("#panel")+" && location.hash === "+literal("#/controller/"+controller), "location.hash")
			p.click(section + ".zoom")
			p.until(pagePatience, fmt.Sprintf("document.querySelectorAll('[data-section]').length === %d", len(resources)), "location.hash")
		}
	}

	// The address of one controller can be shared.
	p := s.open(t, "/controller/mycronjob")
	p.until(pagePatience, "document.querySelectorAll('[data-section]').length === 1 && "+visible(gear("sync", "mycronjob")), "location.hash")
}

// testOffer runs the command that the page offers, and waits until a dot moves.
func testOffer(t *testing.T, s *shown) {
	p := s.open(t, "/controller/application")
	const command = "#offer-command"
	p.until(pagePatience, textOf(command)+"?.includes(' applications.app.aiops.org ')", textOf("#guide"))
	p.click("#offer-copy")
	p.until(pagePatience, "['Copied', 'Selected'].includes("+textOf("#offer-copy")+")", textOf("#offer-copy"))
	p.run(`window.dots = 0;
		new MutationObserver((all) => { dots += all.flatMap((m) => [...m.addedNodes]).filter((n) => n.matches?.('.dot')).length; })
			.observe(document.querySelector('[data-section=application]'), { childList: true, subtree: true })`)
	line := strings.Replace(ask[string](p, textOf(command)), "$(date +%s)", "now", 1)
	words := strings.Fields(line)
	if words[0] != "kubectl" {
		t.Fatalf("the page offers %q", line)
	}
	if out, err := s.kubectl(t, words[1:]...); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	p.until(pagePatience, "dots > 0", "dots")
}

// axe returns the source of axe-core, which hack/axe.sh installs. Without axe-core, it skips the test.
func axe(t *testing.T) string {
	t.Helper()
	path := cmp.Or(os.Getenv("AXE_JS"), filepath.Join("..", "..", "..", "bin", "tools", "axe", "node_modules", "axe-core", "axe.min.js"))
	source, err := os.ReadFile(path)
	if err != nil {
		t.Skipf("SKIPPED, accessibility was not checked: axe-core is not installed: %v", err)
	}
	return string(source)
}

// violations is a script that runs axe-core. A violation is a rule, with the first elements that break the rule.
const violations = `axe.run({ resultTypes: ['violations'] }).then(({ violations }) => violations.map((v) =>
	v.id + ' (' + v.impact + '), ' + v.help + ': ' + v.nodes.slice(0, 3).map((n) => n.target.join(' ') + ' ' + n.failureSummary).join('; ')))`

func testAxe(t *testing.T, s *shown) {
	source := axe(t)
	for _, name := range []string{"light", "dark"} {
		p := s.b.open(t, s.url, theme(name), laptop(laptops["1440"]))
		p.run(source)
		check := func(what string) {
			t.Helper()
			if found := ask[[]string](p, violations); len(found) > 0 {
				t.Errorf("%s, %s: %q", name, what, found)
			}
		}
		p.until(pagePatience, visible(gear("index", jobs)))
		check("a first visit")
		for what, place := range s.places() {
			p.goTo(place)
			check(what)
		}
		p.goTo("/")
		p.click("#ideas-read")
		p.press("?")
		p.until(pagePatience, visible("dialog#keys[open]"))
		check("the help")
		p.press(kb.Escape)
		p.press("/mycronjob")
		p.until(pagePatience, visible("#search-results [role=option]"))
		check("the search")
	}
}
