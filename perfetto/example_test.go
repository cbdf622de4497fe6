package perfetto_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/cudatrace/cudatrace/perfetto"
	"github.com/cudatrace/cudatrace/perfetto/tracetest"
)

// A call of a thread launches a kernel.
func Example() {
	var trace bytes.Buffer
	w := perfetto.NewWriter(&trace, perfetto.Options{Start: 1000})
	w.Process(perfetto.Process{PID: 10, Name: "train"})
	thread := w.Thread(perfetto.Thread{PID: 10, TID: 10, Name: "main"})
	stream := w.Queue(perfetto.QueueInfo{PID: 10, Context: 1, Stream: 7, Name: "Stream 07"})

	var call perfetto.TrackEventTemplate
	call.Encode(w, "cudaLaunchKernel", "runtime", []perfetto.Arg{perfetto.Pointer("func", 0xabc)})
	var kernel perfetto.RenderStageTemplate
	kernel.Encode(w, &perfetto.RenderStageEvent{
		Stage: perfetto.StageKernel, Name: "axpy", Grid: [3]uint32{132, 1, 1}, Block: [3]uint32{256, 1, 1},
		Kernel: w.Kernel(perfetto.Kernel{Name: "_Z4axpyfPfS_", Demangled: "axpy(float, float*, float*)"}),
	})

	const id = 1 // of the work: the call refers to it
	thread.Begin(1100, &call, perfetto.Links{Submitted: []uint64{id}}, perfetto.Uint("correlation", 5))
	thread.End(1300)
	stream.Event(&kernel, id, 1400, 250, perfetto.Uint("correlation", 5))
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}

	text, err := tracetest.Text(trace.Bytes()) // a text form, for tests
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(text)
	// Output:
	// packet {
	//   trusted_packet_sequence_id: 1
	//   sequence_flags: 1
	//   clock_snapshot { clocks { clock_id: 3 timestamp: 1000 } clocks { clock_id: 6 timestamp: 1000 } clocks { clock_id: 1 timestamp: 1000 } primary_trace_clock: 3 }
	// }
	// packet {
	//   trusted_packet_sequence_id: 1
	//   track_descriptor { uuid: 1 process { pid: 10 legacy_sort_index: 0 process_name: "train" } child_ordering: 3 }
	// }
	// packet {
	//   trusted_packet_sequence_id: 1
	//   track_descriptor { uuid: 2 thread { pid: 10 tid: 10 legacy_sort_index: 0 thread_name: "main" } }
	// }
	// packet {
	//   trusted_packet_sequence_id: 2
	//   sequence_flags: 1
	//   clock_snapshot { clocks { clock_id: 64 timestamp: 1000 is_incremental: 1 } clocks { clock_id: 3 timestamp: 1000 } }
	//   trace_packet_defaults { timestamp_clock_id: 64 }
	// }
	// packet {
	//   trusted_packet_sequence_id: 3
	//   sequence_flags: 1
	//   clock_snapshot { clocks { clock_id: 64 timestamp: 1000 is_incremental: 1 } clocks { clock_id: 3 timestamp: 1000 } }
	//   trace_packet_defaults { timestamp_clock_id: 64 track_event_defaults { track_uuid: 2 } }
	// }
	// packet {
	//   trusted_packet_sequence_id: 4
	//   sequence_flags: 1
	//   clock_snapshot { clocks { clock_id: 64 timestamp: 1000 is_incremental: 1 } clocks { clock_id: 3 timestamp: 1000 } }
	//   trace_packet_defaults { timestamp_clock_id: 64 track_event_defaults { track_uuid: 2 } }
	// }
	// packet {
	//   trusted_packet_sequence_id: 2
	//   interned_data { gpu_specifications { iid: 16 name: "Stream 07" } graphics_contexts { iid: 1 pid: 10 api: 4 } compute_arg_names { iid: 1 name: "device" } compute_arg_names { iid: 2 name: "stream" } }
	// }
	// packet {
	//   trusted_packet_sequence_id: 2
	//   interned_data { compute_arg_names { iid: 3 name: "correlation" } event_names { iid: 2 name: "axpy" } gpu_specifications { iid: 1 name: "Kernel" description: "kernel" category: 2 } compute_kernels { iid: 1 name: "_Z4axpyfPfS_" demangled_name: "axpy(float, float*, float*)" } }
	//   gpu_render_stage_event { context: 1 gpu_id: 0 hw_queue_iid: 16 stage_iid: 1 name_iid: 2 kernel_iid: 1 launch { grid_size { x: 132 y: 1 z: 1 } workgroup_size { x: 256 y: 1 z: 1 } args { name_iid: 1 uint_value: 0 } args { name_iid: 2 uint_value: 7 } args { name_iid: 3 uint_value: 5 } } event_id: 1 duration: 250 }
	//   timestamp: 400
	// }
	// packet {
	//   trusted_packet_sequence_id: 3
	//   interned_data { debug_annotation_names { iid: 2 name: "correlation" } event_names { iid: 1 name: "cudaLaunchKernel" } event_categories { iid: 1 name: "runtime" } debug_annotation_names { iid: 1 name: "func" } }
	//   track_event { type: 1 name_iid: 1 category_iids: 1 debug_annotations { name_iid: 1 pointer_value: 2748 } gpu_correlation { render_stage_submission_event_ids: 1 } debug_annotations { name_iid: 2 uint_value: 5 } }
	//   timestamp: 100
	// }
	// packet {
	//   trusted_packet_sequence_id: 4
	//   track_event { type: 2 }
	//   timestamp: 300
	// }
}
