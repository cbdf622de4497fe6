package ranks

import (
	"fmt"
	"strings"
)

// Words lists numbers that are in order: "0-3, 8".
func Words(numbers []uint32) string {
	var words []string
	for i := 0; i < len(numbers); {
		first := i
		for i++; i < len(numbers) && numbers[i] == numbers[i-1]+1; i++ {
		}
		words = append(words, span(numbers[first], numbers[i-1]))
	}
	return strings.Join(words, ", ")
}

func span(first, last uint32) string {
	if first == last {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d-%d", first, last)
}
