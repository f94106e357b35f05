package page

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/warproute/warproute/internal/require"
)

// screenshots is a directory to write screenshots to, for docs: WARPROUTE_SCREENSHOTS=../../docs.
const screenshots = "WARPROUTE_SCREENSHOTS"

// browser opens a page in a headless browser and returns the errors that the page has reported.
func browser(t *testing.T) (ctx context.Context, errors func() []string) {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-dev-shm-usage", true))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 5*time.Minute)
	t.Cleanup(cancel)
	var mu sync.Mutex
	var found []string
	chromedp.ListenTarget(ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			found = append(found, e.ExceptionDetails.Error())
		case *log.EventEntryAdded: // also violations of the content security policy
			if e.Entry.Level == log.LevelError || e.Entry.Level == log.LevelWarning {
				found = append(found, e.Entry.Text)
			}
		}
	})
	return ctx, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), found...)
	}
}

// JavaScript expressions. The page replaces its elements with each update, so that a reference to one is soon outdated.
const (
	live     = `document.querySelector("#link.live") != null`
	openDrop = `(document.querySelector("#list-drops details[open]")?.innerText ?? "")`
)

// until waits until an expression is true.
func until(expression string) chromedp.Action {
	return chromedp.Poll(expression, nil, chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(time.Minute))
}

// click clicks on an element until an expression is true: the element may be replaced while the mouse is on its way.
func click(selector, expression string) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) (err error) {
		for range 5 {
			attempt, cancel := context.WithTimeout(ctx, 10*time.Second)
			err = chromedp.Run(attempt, chromedp.Click(selector, chromedp.ByQuery), chromedp.Poll(expression, nil, chromedp.WithPollingInterval(50*time.Millisecond)))
			cancel()
			if err == nil {
				return nil
			}
		}
		return fmt.Errorf("click on %s: %w", selector, err)
	})
}

// A browser shows live rates, opens the explanation of a drop, follows the navigation, and says when the
// router is gone.
func TestBrowserShowsTheRouter(t *testing.T) {
	r := newRouter()
	r.portName = `<img src=x onerror="document.title='markup'">`
	server := httptest.NewServer(Handler(r.source()))
	defer server.Close()
	ctx, errors := browser(t)
	var body, hint, title string
	var top, height float64
	require.NoError(t, chromedp.Run(ctx,
		emulation.SetFocusEmulationEnabled(true),
		chromedp.EmulateViewport(1280, 900),
		chromedp.Navigate(server.URL),
		until(live),
		chromedp.Sleep(2500*time.Millisecond), // several updates
		chromedp.Evaluate(`document.body.innerText`, &body),
		click("#list-drops summary", openDrop+` != ""`),
		chromedp.Sleep(1500*time.Millisecond), // open after an update, too
		chromedp.Evaluate(openDrop, &hint),
		click(`nav a[href="#engine"]`, `location.hash == "#engine"`),
		chromedp.Sleep(300*time.Millisecond),
		chromedp.Evaluate(`document.getElementById("engine").getBoundingClientRect().top`, &top),
		chromedp.Evaluate(`innerHeight`, &height),
		chromedp.Title(&title),
	))
	for _, want := range []string{
		r.portName, "worker 0 25 %", "wan0", "down", "zero-copy", "voice", "100 µs", "branch", "0xc0ffee", "192.0.2.1 → 192.0.2.2",
		"900,000 + 200,000 routes", "no GPU was found", "v9.9.9", "20.1 µs",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not show %q:\n%s", want, body)
		}
	}
	// 1.2 million packets, 120 bytes each, per snapshot: one a second, on a busy machine fewer.
	if !regexp.MustCompile(`in (1\.[0-3]\d M|[4-9]\d\d k)pps\b`).MatchString(body) || !regexp.MustCompile(`in (1\.0\d G|[3-9]\d\d M)bit/s`).MatchString(body) {
		t.Errorf("the page does not show the rates:\n%s", body)
	}
	if !strings.Contains(hint, "no route covers the destination") || !strings.Contains(hint, "To fix: ") {
		t.Errorf("the opened drop shows %q", hint)
	}
	if top < 0 || top > height {
		t.Errorf("after a click on Engine, its section is at %.0f of %.0f pixels", top, height)
	}
	if title == "markup" {
		t.Error("the name of a port was read as HTML")
	}
	if found := errors(); len(found) > 0 {
		t.Errorf("the browser reports %q", found)
	}
	close(r.ending)
	server.CloseClientConnections()
	server.Close()
	require.NoError(t, chromedp.Run(ctx, until(`document.querySelector("#link.lost") != null`), chromedp.Evaluate(`document.getElementById("link").innerText`, &body)))
	if !strings.Contains(body, "no answer") {
		t.Errorf("without a router the page says %q", body)
	}
}

// The page fits screens of all widths, in light and dark colors.
func TestBrowserFitsScreens(t *testing.T) {
	r := newRouter()
	pause := 1200 * time.Millisecond
	if os.Getenv(screenshots) != "" {
		r.varies, pause = true, 40*time.Second
	}
	server := httptest.NewServer(Handler(r.source()))
	defer server.Close()
	defer close(r.ending)
	ctx, errors := browser(t)
	for _, screen := range []struct {
		name          string
		width, height int64
		scheme        string
	}{{"light", 1280, 900, "light"}, {"dark", 1280, 900, "dark"}, {"phone", 390, 844, "dark"}, {"small", 320, 568, "light"}} {
		var overflow float64
		var back string
		var picture []byte
		require.NoError(t, chromedp.Run(ctx,
			chromedp.EmulateViewport(screen.width, screen.height),
			emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: screen.scheme}}),
			chromedp.Navigate(server.URL),
			until(live),
			chromedp.Sleep(pause),
			chromedp.Evaluate(`document.scrollingElement.scrollWidth - innerWidth`, &overflow),
			chromedp.Evaluate(`getComputedStyle(document.body).backgroundColor`, &back),
			chromedp.FullScreenshot(&picture, 100),
		))
		if overflow > 0 {
			t.Errorf("%s: the page is %.0f pixels wider than the screen", screen.name, overflow)
		}
		if dark := back != "rgb(255, 255, 255)"; dark != (screen.scheme == "dark") {
			t.Errorf("%s: background %s", screen.name, back)
		}
		if dir := os.Getenv(screenshots); dir != "" && screen.name != "small" {
			require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("status-%s.png", screen.name)), picture, 0o644))
		}
	}
	if found := errors(); len(found) > 0 {
		t.Errorf("the browser reports %q", found)
	}
}
