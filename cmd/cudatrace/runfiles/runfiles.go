// Package runfiles finds the files of runs: logs, and the JSON of their statistics.
//
// Input: words of a command line, which name files, folders or patterns. Output: paths of files.
package runfiles

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cudatrace/cudatrace/record"
	"github.com/cudatrace/cudatrace/record/errno"
)

// Find returns the files that words name. The error for a wrong pattern is filepath.ErrBadPattern.
func Find(words []string) (files []string, err error) {
	for _, word := range words {
		found, err := named(word)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	return files, nil
}

// named returns the files that a word names.
func named(word string) ([]string, error) {
	info, err := os.Stat(word)
	switch {
	case err == nil && info.IsDir():
		return in(word)
	case err == nil:
		return []string{word}, nil
	case !os.IsNotExist(err) || !strings.ContainsAny(word, "*?["):
		return nil, fmt.Errorf("%s cannot be opened: %s", word, errno.Words(err))
	}
	files, err := filepath.Glob(word)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no file matches %s", word)
	}
	return files, nil
}

// in returns the logs in a folder, or its JSON files where it has no logs: one run may be there in
// both forms.
func in(folder string) ([]string, error) {
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
