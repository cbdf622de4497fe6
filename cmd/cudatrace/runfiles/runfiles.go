// Package runfiles finds the files of runs.
//
// Input: words of a command line, which name files, folders or patterns. Output: paths of files.
package runfiles

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cudatrace/cudatrace/record/errno"
)

// Find returns the files that words name. Of a folder these are the files with the first suffix
// that any file has: one run may be there in several forms. The error for a wrong pattern is
// filepath.ErrBadPattern.
func Find(words []string, suffixes ...string) (files []string, err error) {
	for _, word := range words {
		found, err := named(word, suffixes)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	return files, nil
}

// named returns the files that a word names.
func named(word string, suffixes []string) ([]string, error) {
	info, err := os.Stat(word)
	switch {
	case err == nil && info.IsDir():
		return in(word, suffixes)
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

// in returns the files of a folder.
func in(folder string, suffixes []string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %s", folder, errno.Words(err))
	}
	for _, suffix := range suffixes {
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
	return nil, fmt.Errorf("%s has no files *%s", folder, strings.Join(suffixes, " and no files *"))
}
