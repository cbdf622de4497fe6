package main

import (
	"cmp"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/record"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/pattern"
)

// A habit is what people type who know another profiler, and what does the same here.
type habit struct {
	command string // whose option it is; "" for a word in place of a command
	typed   string // -F, --freq VALUE
	write   string // "" to leave it out
	why     string // "" for an unknown option or command

	// of returns the value to write in place of the one typed, "" where the habit does not apply to it. nil keeps it.
	of func(value string) string
}

// habits are those of Nsight Systems, perf and py-spy. docs/commands.md shows them.
var habits = []habit{
	{typed: "profile, trace, launch", write: recordName},
	{typed: "attach", write: recordName + " -p"},
	{typed: "export", write: convertName},
	{typed: "analyze, summary", write: statsName},
	{typed: "script", write: dumpName},
	{typed: "view, ui, show", write: openName},
	{typed: "compare", write: diffName},
	{recordName, "-t, --trace VALUE", "", "CUDA, NVTX and NCCL are recorded without it", nil},
	{recordName, "-f, --force-overwrite VALUE", "", "-o replaces existing files", nil},
	{recordName, "-g", "", "callers are recorded without it", nil},
	{recordName, "-b, --backtrace, --call-graph, --cudabacktrace VALUE", "", "callers are recorded without it", nil},
	{recordName, "--cuda-memory-usage VALUE", "", "allocations are recorded without it", nil},
	{recordName, "--cuda-graph-trace VALUE", "", "graphs are recorded node by node", nil},
	{recordName, "--stats VALUE", "", "record prints a summary", nil},
	{recordName, "-w, --show-output VALUE", "", "the program's output is shown", nil},
	{recordName, "-F, --freq, -r, --rate VALUE", "--sample VALUE", "", nil},
	{recordName, "-s, --sample VALUE", "--sample off", "--sample takes a rate or off",
		func(v string) string { return map[string]string{"none": "off"}[v] }},
	{recordName, "-y VALUE", "--delay VALUE", "", nil},
	{recordName, "-c VALUE", "--capture-range VALUE", "", nil},
	{convertName, "--to VALUE", "--format VALUE", "--to is a time", formatOf},
	{convertName, "-t, --type VALUE", "--format VALUE", "", formatOf},
	{convertName, "-i, --input VALUE", "VALUE", "logs are arguments", nil},
	{statsName, "-r VALUE", "--report VALUE", "", func(v string) string { return cmp.Or(reportsOf(v), v) }},
	{statsName, "--report VALUE", "--report VALUE", "that is a report of Nsight Systems", reportsOf},
	{statsName, "-f VALUE", "--format VALUE", "", nil},
	{statsName, "-i, --input VALUE", "VALUE", "logs are arguments", nil},
	{reportName, "-o, --output VALUE", "-o VALUE", "the page is HTML, which browsers print as PDF", pageOf},
	{reportName, "-f, --format VALUE", "", "the page is HTML", nil},
}

// formatOf returns the name of our format that comes closest to a format.
func formatOf(value string) string {
	if convert.FormatNamed(value) != nil {
		return value
	}
	return map[string]string{"sqlite": "parquet", "csv": "parquet", "arrow": "parquet", "parquetdir": "parquet",
		"hdf": "parquet", "json": "chrome", "jsonlines": "ndjson", "pftrace": "perfetto"}[value]
}

// nsightReports are the names of our reports, by those of Nsight Systems.
var nsightReports = map[string]string{
	"cuda_gpu_kern_sum": "kernels", "cuda_api_sum": "calls", "cuda_gpu_mem_time_sum": "copies",
	"cuda_gpu_mem_size_sum": "copies",
}

// reportsOf returns the names of our reports for those of Nsight Systems.
func reportsOf(value string) string {
	var ours []string
	for _, name := range words(value) {
		if nsightReports[name] == "" {
			return ""
		}
		ours = append(ours, nsightReports[name])
	}
	return strings.Join(ours, ",")
}

// pageOf returns the name of a page of HTML in place of a document or picture.
func pageOf(value string) string {
	suffix := filepath.Ext(value)
	if !slices.Contains([]string{".pdf", ".png", ".docx"}, suffix) {
		return ""
	}
	return strings.TrimSuffix(value, suffix) + ".html"
}

// habitOf returns the habit that some words of a command begin with, the words to write instead, and the number of
// words that they replace.
func habitOf(command string, typed []string) (h *habit, instead []string, n int) {
	name, value, joined := strings.Cut(typed[0], "=")
	for i := range habits {
		h = &habits[i]
		names, takesValue := strings.CutSuffix(h.typed, " VALUE")
		if h.command != command || !slices.Contains(strings.Split(names, ", "), name) {
			continue
		}
		v, n := value, 1
		if takesValue && !joined {
			if len(typed) == 1 {
				continue
			}
			v, n = typed[1], 2
		}
		if h.of != nil {
			if v = h.of(v); v == "" {
				continue
			}
		}
		for _, word := range strings.Fields(h.write) {
			instead = append(instead, strings.ReplaceAll(word, "VALUE", v))
		}
		return h, instead, n
	}
	return nil, nil, 0
}

// noCommand says what is wrong with a first word that is no command, and what to write.
func noCommand(app *cli.App, typed []string) error {
	word, rest := typed[0], typed[1:]
	if word == "nsys" && len(rest) > 0 {
		return noCommand(app, rest)
	}
	line := commandFor(app, word, rest)
	if line == nil {
		return usagef("", "unknown command %q", word)
	}
	cmd := app.Command(line[0])
	if len(line) == 1 && cmd.ArgsUsage != "" && cmd.ArgsUsage[0] != '[' {
		return usagef(line[0], "unknown command %q (did you mean '%s'?)", word, line[0])
	}
	l := commandLine{cmd: cmd}
	if l.read(line[1:]); l.foreign != "" {
		line = append(line[:1:1], l.typed...)
	}
	return writef(line, "unknown command %q", word)
}

// commandFor returns a command line with a command of ours for one without, nil where nothing tells which.
func commandFor(app *cli.App, word string, rest []string) []string {
	if h, instead, _ := habitOf("", []string{word}); h != nil {
		return append(instead, rest...)
	}
	if slices.Contains(stats.Names(), word) {
		if len(rest) == 0 {
			rest = []string{"LOG"}
		}
		return slices.Concat([]string{statsName}, rest, []string{"--report", word})
	}
	if near := nearCommand(app, word); near != "" {
		return append([]string{near}, rest...)
	}
	switch _, err := exec.LookPath(word); {
	case strings.HasSuffix(word, record.LogSuffix):
		return slices.Concat([]string{statsName, word}, rest)
	case strings.HasSuffix(word, record.TraceSuffix):
		return slices.Concat([]string{openName, word}, rest)
	case strings.HasSuffix(word, ".py"):
		return slices.Concat([]string{recordName, "python3", word}, rest)
	case err == nil || strings.Contains(word, "/"):
		return slices.Concat([]string{recordName, word}, rest)
	}
	return nil
}

func nearCommand(app *cli.App, word string) string {
	var names []string
	for _, c := range app.Commands {
		names = append(names, c.Name)
	}
	return pattern.Nearest(word, names)
}

// noHelp says what is wrong with the word behind help.
func noHelp(app *cli.App, word string) error {
	near := nearCommand(app, word)
	if h, instead, _ := habitOf("", []string{word}); h != nil {
		near = instead[0]
	}
	if near == "" {
		return usagef("", "unknown command %q", word)
	}
	return writef([]string{helpName, near}, "unknown command %q", word)
}

// writef is the error of a command line in whose place a person can paste another.
func writef(line []string, format string, args ...any) error {
	paste := figures.Shell(append([]string{"cudatrace"}, line...)...)
	return usageError{fmt.Sprintf(format, args...) + "; write: " + paste, paste}
}
