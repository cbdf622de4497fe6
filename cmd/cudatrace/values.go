package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/record/pattern"
)

// sizeUnits are the units of parseSize, each 1024 times the one before.
const sizeUnits = "KMGT"

// parseSize reads the value of an option that takes a number of bytes: 64M, 64MB and 64MiB are
// 64 * 1024 * 1024.
func parseSize(option, text string, least, most uint64) (uint64, error) {
	number, shift := strings.ToUpper(strings.TrimSpace(text)), 0
	if bytes, ok := strings.CutSuffix(number, "B"); ok {
		number = bytes
		if unit, ok := strings.CutSuffix(bytes, "I"); ok && strings.ContainsAny(unit, sizeUnits) {
			number = unit
		}
	}
	if n := len(number) - 1; n > 0 {
		if i := strings.IndexByte(sizeUnits, number[n]); i >= 0 {
			number, shift = number[:n], 10*(i+1)
		}
	}
	n, err := strconv.ParseUint(strings.TrimSpace(number), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("--%s %q is not a size: write 500K, 64M or 1GiB", option, text)
	}
	if n > most>>shift || n<<shift < least {
		return 0, fmt.Errorf("--%s %s must be between %s and %s", option, text, sizeText(least), sizeText(most))
	}
	return n << shift, nil
}

// oneOf reads the value of an option that has a list of values.
func oneOf[T ~string](c *cli.Context, option string, known ...T) (T, error) {
	value, words := T(c.String(option)), make([]string, len(known))
	for i, k := range known {
		words[i] = string(k)
	}
	if !slices.Contains(known, value) {
		return value, fmt.Errorf("--%s must be %s, not %q", option, either(words), string(value))
	}
	return value, nil
}

func sizeText(n uint64) string {
	unit := ""
	for _, next := range sizeUnits {
		if n < 1024 || n%1024 != 0 {
			break
		}
		n, unit = n/1024, string(next)
	}
	return strconv.FormatUint(n, 10) + unit
}

// optionTime reads a time among the options of a command, 0 without it.
func optionTime(c *cli.Context, option, examples string) (time.Duration, error) {
	if text := c.String(option); text != "" || c.IsSet(option) {
		return parseTime(option, text, examples)
	}
	return 0, nil
}

// timeExamples are what parseTime reads, for an error.
const timeExamples = "10 (seconds), 500ms or 2m"

// parseTime reads the value of an option that takes a time: 500ms, 1m30s. A number without a unit is
// in seconds.
func parseTime(option, text, examples string) (time.Duration, error) {
	value := strings.TrimSpace(text)
	if value != "" && strings.Trim(value, "-0123456789.") == "" {
		value += "s"
	}
	d, err := time.ParseDuration(value)
	if err != nil {
		return 0, fmt.Errorf("--%s %q is not a time: write %s", option, text, examples)
	}
	if d < 0 {
		return 0, fmt.Errorf("--%s %s must not be negative", option, text)
	}
	return d, nil
}

// either lists some words: a, b or c.
func either(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// words splits a list at its commas.
func words(list string) []string {
	return slices.DeleteFunc(strings.Split(list, ","), func(s string) bool { return s == "" })
}

// rangesOption reads the value of an option that selects NVTX ranges; the zero Ranges where it is not given.
func rangesOption(c *cli.Context, option string) (r pattern.Ranges, err error) {
	if !c.IsSet(option) {
		return r, nil
	}
	if r, err = pattern.ParseRanges(c.String(option)); err != nil {
		err = fmt.Errorf("--%s %q is not a pattern: %w", option, c.String(option), err)
	}
	return r, err
}
