package main

import "testing"

func TestParseSize(t *testing.T) {
	for text, want := range map[string]uint64{
		"1048576": 1 << 20, "1024K": 1 << 20, "64M": 64 << 20, "64m": 64 << 20, "1G": 1 << 30,
	} {
		if got, err := parseSize("memory-limit", text, 1<<20, 1<<30); got != want || err != nil {
			t.Errorf("parseSize(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":           `--memory-limit "" is not a size: write 500K, 64M or 1G`,
		"M":          `--memory-limit "M" is not a size: write 500K, 64M or 1G`,
		"64MB":       `--memory-limit "64MB" is not a size: write 500K, 64M or 1G`,
		"-1M":        `--memory-limit "-1M" is not a size: write 500K, 64M or 1G`,
		"512K":       "--memory-limit 512K must be between 1M and 1G",
		"2G":         "--memory-limit 2G must be between 1M and 1G",
		"5000000000": `--memory-limit "5000000000" is not a size: write 500K, 64M or 1G`,
	} {
		if _, err := parseSize("memory-limit", text, 1<<20, 1<<30); err == nil || err.Error() != want {
			t.Errorf("parseSize(%q): %v, want %s", text, err, want)
		}
	}
}
