package main

import (
	"testing"
	"time"
)

func TestParseSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]uint64{
		"1048576": 1 << 20, "1024K": 1 << 20, "64M": 64 << 20, "64m": 64 << 20, "1G": 1 << 30, "64MB": 64 << 20,
		"64MiB": 64 << 20, "64mib": 64 << 20, "64 MiB": 64 << 20, "1048576B": 1 << 20, "5000000000": 5000000000, "1T": 1 << 40,
	} {
		if got, err := parseSize("memory-limit", text, 1<<20, 1<<40); got != want || err != nil {
			t.Errorf("parseSize(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                      `--memory-limit "" is not a size: write 500K, 64M or 1GiB`,
		"M":                     `--memory-limit "M" is not a size: write 500K, 64M or 1GiB`,
		"MiB":                   `--memory-limit "MiB" is not a size: write 500K, 64M or 1GiB`,
		"64i":                   `--memory-limit "64i" is not a size: write 500K, 64M or 1GiB`,
		"64iB":                  `--memory-limit "64iB" is not a size: write 500K, 64M or 1GiB`,
		"64MBB":                 `--memory-limit "64MBB" is not a size: write 500K, 64M or 1GiB`,
		"-1M":                   `--memory-limit "-1M" is not a size: write 500K, 64M or 1GiB`,
		"1P":                    `--memory-limit "1P" is not a size: write 500K, 64M or 1GiB`,
		"512K":                  "--memory-limit 512K must be between 1M and 1T",
		"2T":                    "--memory-limit 2T must be between 1M and 1T",
		"18446744073709551615T": "--memory-limit 18446744073709551615T must be between 1M and 1T",
	} {
		if _, err := parseSize("memory-limit", text, 1<<20, 1<<40); err == nil || err.Error() != want {
			t.Errorf("parseSize(%q): %v, want %s", text, err, want)
		}
	}
}

func TestParseTime(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"10": 10 * time.Second, "1.5": 1500 * time.Millisecond, "0.386813522": 386813522, "500ms": 500 * time.Millisecond,
		"1m30s": 90 * time.Second, " 5s ": 5 * time.Second, "10us": 10 * time.Microsecond, "0": 0, ".5": time.Second / 2,
	} {
		if got, err := parseTime("from", text, timeExamples); got != want || err != nil {
			t.Errorf("parseTime(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", ".", "1.2.3", "x", "-5", "-5s", "5 minutes", "121757113488", "1e3"} {
		if got, err := parseTime("from", text, timeExamples); err == nil {
			t.Errorf("parseTime(%q) = %v", text, got)
		}
	}
}
