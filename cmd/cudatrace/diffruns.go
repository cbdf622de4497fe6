package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/diff"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record"
	"github.com/cudatrace/cudatrace/record/errno"
)

// maxRuns bounds the runs of a side, and so the memory for them.
const maxRuns = 100

// readSides finds the files of both sides.
func (o *diffOptions) readSides(c *cli.Context) error {
	args := c.Args().Slice()
	switch {
	case !c.IsSet("base") && len(args) > 2:
		return usagef(diffName, "diff: takes BASE and NEW; for several files a side, write a pattern between quotes, or --base")
	case !c.IsSet("base") && len(args) < 2:
		return usagef(diffName, "diff: BASE and NEW are needed")
	case len(args) == 0:
		return usagef(diffName, "diff: no NEW given")
	}
	var err error
	if o.base, err = filesOf(baseWords(c)); err == nil {
		o.new, err = filesOf(newWords(c))
	}
	return err
}

// baseWords are the words that name BASE.
func baseWords(c *cli.Context) []string {
	if c.IsSet("base") {
		return textsOf(c, "base")
	}
	return c.Args().Slice()[:1]
}

// newWords are the words that name NEW.
func newWords(c *cli.Context) []string {
	if c.IsSet("base") {
		return c.Args().Slice()
	}
	return c.Args().Slice()[1:]
}

// filesOf returns the files that words name: files, folders, and patterns.
func filesOf(words []string) (files []string, err error) {
	for _, word := range words {
		found, err := filesNamed(word)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	if same := sameLog(files); same != "" {
		return nil, usagef(diffName, "diff: %s is given twice: each file is one run", same)
	}
	if len(files) > maxRuns {
		return nil, fmt.Errorf("%s: %d files are more than the %d runs that a side may have", words[0], len(files), maxRuns)
	}
	return files, nil
}

// filesNamed returns the files that a word names.
func filesNamed(word string) ([]string, error) {
	info, err := os.Stat(word)
	switch {
	case word == stdio:
		return nil, usagef(diffName, "diff: reads files, not standard input")
	case err == nil && info.IsDir():
		return filesIn(word)
	case err == nil:
		return []string{word}, nil
	case !os.IsNotExist(err):
		return nil, fmt.Errorf("%s cannot be opened: %s", word, errno.Words(err))
	case !strings.ContainsAny(word, "*?["):
		return nil, fmt.Errorf("%s cannot be opened: no such file or directory", word)
	}
	files, err := filepath.Glob(word)
	if err != nil {
		return nil, usagef(diffName, `diff: %q is not a pattern: a [ lacks its ], or nothing follows a \`, word)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no file matches %s", word)
	}
	return files, nil
}

// filesIn returns the logs in a folder, or its JSON files where it has no logs: one run may be
// there in both forms.
func filesIn(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %s", folder, errno.Words(err))
	}
	for _, suffix := range []string{record.LogSuffix, ".json"} {
		var files []string
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), suffix) && !e.IsDir() {
				files = append(files, filepath.Join(folder, e.Name()))
			}
		}
		if len(files) > 0 {
			return files, nil
		}
	}
	return nil, fmt.Errorf("%s has no logs (*%s) and no JSON of 'cudatrace stats' (*.json)", folder, record.LogSuffix)
}

// runs reads the runs of a side.
func (o *diffOptions) runs(con *console.Console, files []string) (all []*diff.Run, err error) {
	for _, path := range files {
		r, err := o.run(con, path)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// run reads a run: the JSON of stats, or a log.
func (o *diffOptions) run(con *console.Console, path string) (*diff.Run, error) {
	wanted := diff.Reports(o.conditions)
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be opened: %s", path, errno.Words(err))
	}
	defer f.Close()
	in := bufio.NewReader(f)
	if first, err := in.Peek(1); err == nil && first[0] == '{' {
		if o.filters != "" {
			return nil, fmt.Errorf("%s is no log: %s selects from logs alone", path, o.filters)
		}
		return diff.Read(in, path, wanted)
	}
	document, err := o.statistics(con, path)
	if err != nil {
		return nil, err
	}
	return diff.Read(document, path, wanted)
}

// statistics returns what stats writes about a log.
func (o *diffOptions) statistics(con *console.Console, path string) (io.Reader, error) {
	logs := []convert.Log{convert.Path(path)}
	bar := con.Progress()
	sink := stats.New()
	all, err := convert.Timeline(logs, convert.Options{Filter: o.filter, Progress: bar.Show}, sink)
	bar.Done()
	if err != nil {
		return nil, err
	}
	wanted := diff.Reports(o.conditions)
	tables := slices.DeleteFunc(sink.Tables(statsFacts(all)), func(t *table.Table) bool { return !slices.Contains(wanted, t.Name) })
	var document bytes.Buffer
	err = table.WriteJSON(&document, statsHead(logs, all), tables)
	return &document, err
}
