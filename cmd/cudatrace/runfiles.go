package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/record"
	"github.com/cudatrace/cudatrace/record/errno"
)

// runFiles returns the files that words name. Of a folder these are the files with the first suffix that any file has:
// one run may be there in several forms. What a folder or a pattern finds besides files and folders is skipped: a pipe
// there could have us wait for ever. The error for a wrong pattern is filepath.ErrBadPattern.
func runFiles(words []string, suffixes ...string) (files, skipped []string, err error) {
	for _, word := range words {
		found, others, err := filesNamed(word, suffixes)
		skipped = append(skipped, others...)
		if err != nil {
			return nil, skipped, err
		}
		files = append(files, found...)
	}
	return files, skipped, nil
}

// filesNamed returns the files that a word names.
func filesNamed(word string, suffixes []string) (files, skipped []string, err error) {
	info, err := os.Stat(word)
	switch {
	case err == nil && info.IsDir():
		return filesIn(word, suffixes)
	case err == nil:
		return []string{word}, nil, nil
	case !os.IsNotExist(err) || !strings.ContainsAny(word, "*?["):
		return nil, nil, fmt.Errorf("%s cannot be opened: %s%s", word, errno.Words(err), offer(word, record.LogSuffix))
	}
	if files, err = filepath.Glob(word); err != nil {
		return nil, nil, err
	}
	if files, skipped = sorted(files); len(files) == 0 {
		err = fmt.Errorf("no file matches %s", word)
	}
	return files, skipped, err
}

// sorted sorts out what is neither a file nor a folder.
func sorted(paths []string) (files, skipped []string) {
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
			skipped = append(skipped, path)
		} else {
			files = append(files, path)
		}
	}
	return files, skipped
}

// filesIn returns the files of a folder.
func filesIn(folder string, suffixes []string) (files, skipped []string, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, nil, fmt.Errorf("%s cannot be read: %s", folder, errno.Words(err))
	}
	for _, suffix := range suffixes {
		var paths []string
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), suffix) && !e.IsDir() {
				paths = append(paths, filepath.Join(folder, e.Name()))
			}
		}
		files, others := sorted(paths)
		if skipped = append(skipped, others...); len(files) > 0 {
			return files, skipped, nil
		}
	}
	return nil, skipped, fmt.Errorf("%s has no files *%s", folder, strings.Join(suffixes, " and no files *"))
}

// filesOf returns the files that words name, of a command.
func filesOf(con *console.Console, command string, words []string) ([]string, error) {
	if slices.Contains(words, stdio) {
		return nil, usagef(command, "%s: reads files, not standard input", command)
	}
	files, skipped, err := runFiles(words, record.LogSuffix, ".json")
	for _, path := range skipped {
		con.Sayf("%s is skipped: it is not a regular file, and nobody named it", path)
	}
	switch {
	case errors.Is(err, filepath.ErrBadPattern):
		return nil, usagef(command, `%s: %s: no pattern: a [ lacks its ], or nothing follows a \`, command,
			strings.Join(words, " "))
	case err != nil:
		return nil, err
	case sameLog(files) != "":
		return nil, usagef(command, "%s: %s is given twice: each file is of one run", command, sameLog(files))
	case len(files) > maxRunFiles:
		return nil, fmt.Errorf("%s: %d files are more than the %d that a side may have", words[0], len(files), maxRunFiles)
	}
	return files, nil
}
