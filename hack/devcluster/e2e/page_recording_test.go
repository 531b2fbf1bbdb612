// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/glassback/glassback/pkg/must"
)

// TestPageOfARecording moves through the recording of docs/informer.md with the keyboard, without a cluster.
func TestPageOfARecording(t *testing.T) {
	light.parallel(t)
	b := browse(t)
	ctx, cancel := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, binary(t), "inspect", "../../../docs/informer/experiments.jsonl.gz", "--bind-address", "127.0.0.1:0")
	stdout, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	must.Succeed(t, err)
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

	// The recording plays from the start. The slider has a label, and its text is the moment.
	const moment, passes = `document.getElementById('moment')`, `document.querySelectorAll('#life .pass-sync').length`
	p.until(pagePatience, visible("#moment")+` && `+textOf("#connection")+` === 'Recording'`, textOf("#connection"))
	p.until(pagePatience, `Number(`+moment+`.value) > 0 && `+moment+`.labels[0].innerText.length > 0`)
	p.until(pagePatience, moment+`.getAttribute('aria-valuetext').endsWith('after the start')`)
	if !ask[bool](p, `document.getElementById('live').hidden && document.getElementById('offer').hidden`) {
		t.Error("the page of a recording shows controls that need a running operator")
	}

	// The playback pauses. The keyboard moves to the end, where the first name is Jimmy again, and back to a moment before the first greeting.
	p.click("#pause")
	p.run(moment + `.focus()`)
	p.press(kb.End)
	p.until(pagePatience, textOf("#life")+`?.includes('Greetings to Jimmy Song')`, textOf("#life"))
	p.until(pagePatience, passes+` > 10`, textOf(".life-summary"))
	p.shoot("the end")

	// The address opens the same moment in another browser, which is paused, too. While the recording plays, the address has no moment.
	p.until(pagePatience, `location.search.startsWith('?at=2')`, `location.href`)
	shared := ask[string](p, `location.href`)
	other := b.open(t, shared)
	other.expected = absent
	other.until(pagePatience, passes+` === `+fmt.Sprint(ask[int](p, passes)), passes)
	other.until(pagePatience, textOf("#connection")+` === 'Recording' && `+textOf("#pause")+` === 'Resume'`, textOf("#connection"))
	if got, want := ask[string](other, moment+`.value`), ask[string](p, moment+`.value`); got != want {
		t.Errorf("%s shows the moment %s, want %s", shared, got, want)
	}
	other.run(moment + `.focus()`)
	other.press(kb.Home)
	other.click("#pause")
	other.until(pagePatience, `location.search === '' && Number(`+moment+`.value) > 0`, `location.href`)

	p.press(kb.Home)
	p.until(pagePatience, passes+` < 3`, textOf(".life-summary"))
	before := ask[float64](p, `Number(`+moment+`.value)`)
	p.press(kb.PageUp)
	p.until(pagePatience, `Number(`+moment+`.value) > `+fmt.Sprint(before), moment+`.value`)
	p.shoot("a tenth")

	// A time that is none is reported.
	wrong := b.open(t, address+"?at=yesterday")
	wrong.expected = func(complaint string) bool { return strings.Contains(complaint, "status of 400") }
	wrong.until(pagePatience, textOf("#notice")+`?.includes('"yesterday" is no time')`, textOf("#notice"))

	// The recording plays.
	before = ask[float64](p, `Number(`+moment+`.value)`)
	p.click("#pause")
	p.until(pagePatience, `Number(`+moment+`.value) > `+fmt.Sprint(before), moment+`.value`)
}
