package main

import (
	"fmt"
	"strconv"
	"strings"
)

// parseSize reads the value of a flag that takes a number of bytes: 64M is 64 * 1024 * 1024.
func parseSize(flag, text string, least, most uint64) (uint64, error) {
	number, shift := text, 0
	if n := len(text); n > 0 {
		if i := strings.IndexByte("KMG", text[n-1]&^0x20); i >= 0 {
			number, shift = text[:n-1], 10*(i+1)
		}
	}
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("--%s %q is not a size: write 500K, 64M or 1G", flag, text)
	}
	if n <<= shift; n < least || n > most {
		return 0, fmt.Errorf("--%s %s must be between %s and %s", flag, text, sizeText(least), sizeText(most))
	}
	return n, nil
}

func sizeText(n uint64) string {
	units := []string{"", "K", "M", "G", "T"}
	i := 0
	for n >= 1024 && n%1024 == 0 && i < len(units)-1 {
		n, i = n/1024, i+1
	}
	return strconv.FormatUint(n, 10) + units[i]
}
