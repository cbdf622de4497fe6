package tracelog

// Keys of Meta records.
const (
	MetaProgram  = "program"   // as the user named it
	MetaArgs     = "args"      // argument list joined by NUL, the program first
	MetaCwd      = "cwd"       // working directory
	MetaHost     = "host"      // host name
	MetaKernel   = "kernel"    // Linux release
	MetaVersion  = "cudatrace" // version of the recorder
	MetaPID      = "pid"       // of the program
	MetaSchedule = "schedule"  // options that left parts of the program out; absent otherwise

	MetaCallCost    = "call_cost_ns"    // what a probed call costs its program, measured at the start; absent without probes
	MetaRecorderCPU = "recorder_cpu_ns" // processor time that the recorder took until the log's end
)
