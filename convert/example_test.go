package convert_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// Counts the kernels of a log by stream.
func ExampleTimeline() {
	kernels := make(map[uint32]int)
	sink := timeline.Func(func(e timeline.Event) {
		if list, ok := e.(*timeline.WorkList); ok {
			for _, w := range list.List {
				if w.Kind == timeline.KernelWork {
					kernels[list.Stream.ID]++
				}
			}
		}
	})
	logs := []convert.Log{convert.Path("../testdata/gpu/logs/streams.cudatrace")}
	if _, err := convert.Timeline(logs, convert.Options{}, sink); err != nil {
		fmt.Println(err)
	}
	for _, id := range slices.Sorted(maps.Keys(kernels)) {
		fmt.Printf("stream %d: %d kernels\n", id, kernels[id])
	}
	// Output:
	// stream 13: 60 kernels
	// stream 14: 60 kernels
	// stream 15: 60 kernels
}
