package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/browser/chromiumtest"
	"github.com/cudatrace/cudatrace/convert/report"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record/must"
)

// maxReport is the size of a page that is small enough for a ticket or a chat.
const maxReport = 2 << 20

// reportOf makes a page, or a chart.
func reportOf(t *testing.T, out string, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), out)
	var stderr bytes.Buffer
	if code := run(append(append([]string{"cudatrace", "report"}, args...), "-o", path), io.Discard, &stderr); code != 0 {
		t.Fatalf("%q: exit code %d: %s", args, code, &stderr)
	}
	return path
}

// reportLogs are logs of real GPUs, with the charts that their pages have.
var reportLogs = []struct {
	logs   []string
	charts string
}{
	{[]string{"train"}, "run path kernels idle"},
	{[]string{"nccl-rank0", "nccl-rank1"}, "run ranks path kernels idle"},
	{[]string{"graphs/python"}, "run path kernels python flame memory held idle"},
	{[]string{"streams"}, "run path kernels idle"},
	{[]string{"operators"}, "run path kernels python flame operators memory held idle"},
}

func gpuLogs(names []string) (paths []string) {
	for _, name := range names {
		paths = append(paths, filepath.Join(root, "testdata/gpu/logs", name+".cudatrace"))
	}
	return paths
}

var aSection = regexp.MustCompile(`<section id="([a-z]+)"`)

// A page has the charts of what its logs have, is small, and loads nothing.
func TestReport(t *testing.T) {
	t.Parallel()
	for _, of := range reportLogs {
		t.Run(of.logs[0], func(t *testing.T) {
			t.Parallel()
			content := must.Get(os.ReadFile(reportOf(t, "r.html", gpuLogs(of.logs)...)))(t)
			var sections []string
			for _, m := range aSection.FindAllSubmatch(content, -1) {
				sections = append(sections, string(m[1]))
			}
			if got, want := strings.Join(sections, " "), "findings timeline "+of.charts+" recording"; got != want {
				t.Errorf("the page has the sections %s, want %s", got, want)
			}
			if len(content) > maxReport {
				t.Errorf("the page has %d bytes", len(content))
			}
			if m := regexp.MustCompile(`(?i)\ssrc=|@import|url\(|href="[^d]|fetch\(|XMLHttp|import\(`).Find(content); m != nil {
				t.Errorf("the page has %q", m)
			}
		})
	}
}

// Each chart alone is XML, on its own. One that the log has nothing for is an error, and makes no file.
func TestReportSVG(t *testing.T) {
	t.Parallel()
	for _, name := range report.Names() {
		logs := gpuLogs([]string{"streams"})
		switch name {
		case "ranks":
			logs = gpuLogs([]string{"nccl-rank0", "nccl-rank1"})
		case "python", "flame", "memory", "held":
			logs = gpuLogs([]string{"graphs/python"})
		case "operators":
			logs = gpuLogs([]string{"operators"})
		case "comparison":
			logs = append(gpuLogs([]string{"graphs/python"}), "--against", gpuLogs([]string{"graphs/update"})[0])
		}
		content := must.Get(os.ReadFile(reportOf(t, name+".svg", append(logs, "--svg", name)...)))(t)
		checkXML(t, name, content)
	}
	path := filepath.Join(t.TempDir(), "none.svg")
	var stderr bytes.Buffer
	if code := run(append([]string{"cudatrace", "report", "--svg", "python", "-o", path}, gpuLogs([]string{"train"})...), io.Discard, &stderr); code != exitFailure {
		t.Errorf("a chart of nothing: exit code %d: %s", code, &stderr)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a chart of nothing is a file")
	}
}

// The page of several ranks has the paths that 'cudatrace stats' finds of them: those which go on in the rank that entered a collective last.
func TestReportPathOfRanks(t *testing.T) {
	t.Parallel()
	logs := gpuLogs([]string{"nccl-rank0", "nccl-rank1"})
	content := must.Get(os.ReadFile(reportOf(t, "path.svg", append(logs, "--svg", "path")...)))(t)
	stdout, _ := succeed(t, append([]string{"stats", "--report", "critical_path", "--format", "json"}, logs...)...)
	var all struct {
		Rows []struct {
			On   string
			Rank uint64
			Mean float64 `json:"mean_ns"`
		} `json:"critical_path"`
	}
	if err := json.Unmarshal([]byte(stdout), &all); err != nil || len(all.Rows) < 3 {
		t.Fatalf("%d rows, %v", len(all.Rows), err)
	}
	for _, r := range all.Rows[:3] {
		words := fmt.Sprintf(", %s, rank %d: %s", r.On, r.Rank, table.Words(r.Mean, table.Duration))
		if !strings.Contains(string(content), words) {
			t.Errorf("the chart has no %q", words)
		}
	}
}

// The page shows short names of kernels, and the full ones where the mouse is: in the drawings and in the tables.
func TestReportKernelNames(t *testing.T) {
	t.Parallel()
	content := must.Get(os.ReadFile(reportOf(t, "r.html", gpuLogs([]string{"train"})...)))(t)
	const full = "cutlass::Kernel2&lt;cutlass_80_simt_sgemm_64x64_8x5_nn_align1&gt;"
	for _, want := range []string{
		`>gemm f32 64x64 (cutlass)<title>` + full + `</title></text>`, `<title>` + full + `: `,
		`<td title="` + full + `">gemm f32 64x64 (cutlass)</td>`,
	} {
		if !strings.Contains(string(content), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(string(content), "<td>"+full) {
		t.Error("a table of the page shows the full name")
	}
}

// Every log has a page, whatever it lacks.
func TestReportOfEveryLog(t *testing.T) {
	t.Parallel()
	texts, err := filepath.Glob("../../convert/testdata/*.log.txt")
	if err != nil || len(texts) < 20 {
		t.Fatalf("%d logs: %v", len(texts), err)
	}
	for _, path := range texts {
		name := strings.TrimSuffix(filepath.Base(path), ".log.txt")
		out := filepath.Join(t.TempDir(), "r.html")
		var stderr bytes.Buffer
		run([]string{"cudatrace", "report", textLog(t, name), "-o", out}, io.Discard, &stderr) // a log that is not complete is a failure, and has a page
		content, err := os.ReadFile(out)
		if err != nil {
			t.Errorf("%s: %s", name, &stderr)
			continue
		}
		for _, svg := range regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAll(content, -1) {
			checkXML(t, name, svg)
			if bytes.Contains(svg, []byte("NaN")) || bytes.Contains(svg, []byte("-Inf")) {
				t.Errorf("%s: a place is no number", name)
			}
		}
		if !bytes.Contains(content, []byte(`<section id="findings">`)) || !bytes.HasSuffix(bytes.TrimSpace(content), []byte("</html>")) {
			t.Errorf("%s: the page is not whole", name)
		}
	}
}

func checkXML(t *testing.T, what string, content []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(content))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
	}
}

// injection is a name that would become markup, a script or a style, wherever it is not escaped.
const injection = `"'></title></style></svg></script><script>document.owned=1</script><img src=x onerror="document.owned=1">{{1}}<!-- ]]> &lt;`

// TestReportInBrowser: browsers show the page without a message or a request, and names in it are texts.
func TestReportInBrowser(t *testing.T) {
	t.Parallel()
	b := chromiumtest.Start(t, nil)
	evil := filepath.Join(t.TempDir(), "evil.cudatrace")
	namedLogAt(t, evil, injection)
	evilPage := filepath.Join(t.TempDir(), "evil.html")
	succeed(t, "report", evil, "-o", evilPage)
	for _, path := range []string{evilPage, reportOf(t, "ranks.html", append(gpuLogs([]string{"nccl-rank0", "nccl-rank1"}), "--against", gpuLogs([]string{"nccl-rank0"})[0])...)} {
		address := "file://" + path
		p := b.Open(address)
		h := p.Heard()
		if len(h.Console) > 0 {
			t.Errorf("%s: the console has %q", path, h.Console)
		}
		others := slices.DeleteFunc(h.Requests, func(url string) bool { return url == address || strings.HasPrefix(url, "data:") })
		if len(others) > 0 {
			t.Errorf("%s: asks for %q", path, others)
		}
		if p.Eval("document.owned === undefined && document.scripts.length === 2 && document.images.length === 0") != true {
			t.Errorf("%s: a name became markup", path)
		}
		if n, _ := p.Eval("document.querySelectorAll('svg.chart').length").(float64); n < 2 {
			t.Errorf("%s: %v drawings", path, n)
		}
	}
	loud := filepath.Join(t.TempDir(), "loud.html") // the test would notice
	must.Do(t, os.WriteFile(loud, []byte(`<script>console.log(1)</script><img src="other.png">`), 0o600))
	if h := b.Open("file://" + loud).Heard(); len(h.Console) == 0 || len(h.Requests) < 2 {
		t.Errorf("of a page with a message and a request Chromium says %+v", h)
	}
	p := b.Open("file://" + evilPage)
	if got, _ := p.Eval("document.querySelector('h1').textContent").(string); !strings.HasPrefix(got, injection[:20]) {
		t.Errorf("the title is %q", got)
	}
}
