/*
 * Wire format between the injected library and the recorder.
 *
 * Both sides run on one machine. They meet over a Unix stream socket, and go on in memory
 * that both map: after its start the library makes no system call for its messages but futex, since a
 * program may put itself into a sandbox that kills for any other. Everything is
 * little-endian. A message is a frame header and its payload:
 *
 *   +-------------+-----------+-----------+----------------+
 *   | length  u32 | type  u16 | flags u16 | payload        |
 *   +-------------+-----------+-----------+----------------+
 *
 * length counts the payload alone, at most CT_MESSAGE_MAX; flags is 0. A text
 * or path follows the fixed part of its message, unterminated.
 *
 *   library                           recorder
 *  over the socket:
 *      | HELLO ------------------------> |   probes are attached here
 *      | <------------------------- WAIT |   now and then, while they are
 *      | <-------------------------- GO  |   with the descriptors of the memory
 *      | MAPPED, end of stream --------> |
 *  in the memory:
 *      | STATUS -----------------------> |   the process's end is watched from here on
 *      | <----------------------- READY  |
 *      | BATCH, CLOCK, LOST, NOTE -----> |
 *      | FLUSHED, HANDOVER ------------> |
 *      | <--------- FLUSH, PAUSE, RESUME |
 *      | <-- DEPTH, PYTHON, TORCH, OTHER_CLIENT, FINALIZE, STOP |
 *      | BYE --------------------------> |
 *
 * Both streams are rings of bytes (struct ct_ring). The library's stream ends with a BYE, when
 * it is closed, or when its sender thread or its process has ended. A process to which no memory came
 * runs unrecorded.
 *
 * A HANDOVER comes before an end that leaves no time for a BYE, such as a signal,
 * and stands for it when the stream ends behind it. If the program lives on after
 * all, the recording goes on.
 *
 * A program may use NVTX before CUDA. To find libcupti then, the library opens a
 * connection that carries nothing but a LOCATE and a GO, of which only the
 * candidates count:
 *
 *      | LOCATE -----------------------> |
 *      | <-- GO, end of stream --------- |
 *
 * A BATCH holds records one after the other, each a multiple of 8 bytes long
 * and starting with its kind and its size, so that a reader skips a kind that
 * it does not know. wire_records.h has the structs of the kinds, which come from
 * the tables of the log. A STRING record gives a name a number; it is sent before
 * the first record that uses the number, and number 0 means "no name". A CHAIN
 * record does the same for the return addresses above a call, a CODE and a STACK
 * record for the Python frames there. The text of a MARKER
 * is no name, but follows its record, with zeros up to a multiple of 8: programs
 * number their ranges ("step 4711"), which would fill the table of names.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC unless said otherwise.
 */
#ifndef CT_WIRE_H
#define CT_WIRE_H

#include <stdatomic.h>
#include <stdint.h>

#include "wire_records.h"

#define CT_WIRE_VERSION 10u
#define CT_MESSAGE_MAX (1u << 20)
#define CT_NAME_MAX 32768u /* longer texts are cut: CT_LOST_CUT */
#define CT_NAMES_MAX 65536u /* ids run from 1 to this */
#define CT_CHAINS_MAX 8192u /* ids run from 1 to below this */
#define CT_CHAIN_MAX 6u /* return addresses of a chain */
#define CT_CODES_MAX 8192u /* Python code objects; ids run from 1 to below this */
#define CT_STACKS_MAX 65536u /* Python stacks, likewise */
#define CT_PYTHON_NAME_MAX 256u  /* characters of a function's name; a longer one is cut */
#define CT_PYTHON_FILE_MAX 1024u /* characters of a file's name; of a longer one the end is kept */
#define CT_PYTHON_TABLE_MAX 32768u /* bytes of a line table; a longer one is left out */
#define CT_OPERATORS_MAX 16384u /* names of PyTorch's operators; ids run from 1 to below this */
#define CT_OPERATOR_STACKS_MAX 65536u /* stacks of operators, likewise */
#define CT_OPERATOR_NAME_MAX 256u /* bytes; a longer name is cut */
#define CT_GO_MAX (256u << 10) /* bytes of a GO */
#define CT_CANDIDATES_MAX 64u /* of a GO */
#define CT_RANGE_MAX 1024u /* bytes of the globs in a GO */
#define CT_STEPS_MAX 65536u /* numbers of ranges in a GO */
#define CT_FUNCTIONS_MAX 256u /* of a GO */
#define CT_FUNCTION_NAME_MAX 48u /* bytes, with the zero behind it */
#define CT_GO_WAIT_MS 2000u /* wait for a sign of the recorder: GO, or WAIT, which starts the time anew */
#define CT_GO_MOST_MS 10000u /* wait for GO, whatever the recorder says */

enum ct_message_type {
	CT_MSG_HELLO = 1,
	CT_MSG_STATUS = 2,
	CT_MSG_BATCH = 3,
	CT_MSG_CLOCK = 4,
	CT_MSG_LOST = 5,
	CT_MSG_NOTE = 6,
	CT_MSG_BYE = 7,
	CT_MSG_LOCATE = 8, /* no payload; first and last message of its connection */
	CT_MSG_FLUSHED = 9,
	CT_MSG_HANDOVER = 10, /* a ct_bye */
	CT_MSG_MAPPED = 11,   /* no payload; the stream goes on in the memory */
	CT_MSG_GO = 32,
	CT_MSG_STOP = 33,  /* no payload */
	CT_MSG_FLUSH = 34, /* no payload */
	CT_MSG_PAUSE = 35, /* no payload, as the next two */
	CT_MSG_RESUME = 36,
	CT_MSG_OTHER_CLIENT = 37, /* another CUPTI client has taken the records over */
	CT_MSG_READY = 38,   /* no payload; the program goes on when it comes */
	CT_MSG_DEPTH = 39,   /* ct_depth, any number of them */
	CT_MSG_WAIT = 42,    /* no payload; the recorder is at work on GO, for which the process waits on */
	CT_MSG_PYTHON = 43,  /* ct_python, of an interpreter that was found after GO; minor 0 ends the reading of frames */
	CT_MSG_FINALIZE = 45, /* no payload; then STOP comes */
	CT_MSG_TORCH = 44,   /* ct_torch; again to switch operators on or off */
};

/* Flags of a MARKER: CUPTI's, and one of ours: the range began before the recording, at whose beginning the record was made. */
#define CT_MARKER_INSTANT 1u
#define CT_MARKER_START 2u
#define CT_MARKER_END 4u
#define CT_MARKER_BEFORE 128u

struct ct_frame {
	uint32_t length;
	uint16_t type;
	uint16_t flags;
};

struct ct_hello {
	uint32_t version; /* CT_WIRE_VERSION */
	uint32_t pad;
	uint64_t since;   /* when the wait for the recorder began */
	uint64_t request; /* address of the function that gives CUPTI buffers: who registers another is another client */
};

/*
 * The Python interpreter of a process, and where it keeps what leads to a thread's frames. Package pyframes has the
 * meaning of each field; those of 32 bits are offsets, -1 where the version has no such field.
 */
struct ct_python {
	uint64_t runtime, gil_state, code_type; /* addresses of _PyRuntime, PyGILState_GetThisThreadState, PyCode_Type */
	uint32_t minor;                         /* of CPython 3; 0: no interpreter is known */
	int32_t finalizing, interpreters;
	int32_t thread_interpreter, thread_id, thread_frame, thread_cframe, thread_chunk;
	int32_t frame_code, frame_previous, frame_instruction, instruction_unit, frame_owner;
	int32_t code_first, code_first_line, code_file, code_name, code_line_table, code_version;
	int32_t text_ascii, text_compact;
	uint32_t pad;
};

/* PyTorch in a process: addresses of its functions, and whether operators are recorded from now on. */
struct ct_torch {
	uint64_t add, disable, reenable; /* at::addGlobalCallback, disableCallback, reenableCallback */
	uint64_t name, thread;           /* at::RecordFunction::name, currentThreadId (or 0) */
	uint64_t peek;                   /* at::sequence_number::peek */
	uint32_t on;                     /* CT_TORCH_*; 0: off */
	uint32_t pad;
};
#define CT_TORCH_ON 1u
#define CT_TORCH_SPANS 2u /* with a record of each operator */

/*
 * GO, then candidates times {u32 major, u32 length, path}, then calls times
 * {u32 length, name}. The names are without suffixes: "cuMemcpyHtoD" stands for
 * cuMemcpyHtoD_v2 and its kin. At the end, range_len bytes: the glob of the names of NVTX ranges, NUL and that of their
 * domains, of which the default one has the name "".
 */
struct ct_go {
	uint32_t buffer_size;  /* of a CUPTI buffer, bytes */
	uint32_t flush_ms;     /* how old a record may get before it is sent */
	uint64_t memory_limit; /* bytes, everything of ours in the program; 3 MiB at least */
	uint32_t exit_ms;      /* the longest wait for the recorder at the program's end */
	uint32_t flags;        /* CT_GO_* */
	uint32_t candidates;
	uint32_t calls;   /* whose API records to make; 0: those that create GPU work */
	uint32_t records; /* CT_RECORDS_* */
	uint32_t range_len; /* of the NVTX ranges to which recording is limited; 0: none */
	uint64_t first_step; /* the number of the first of these ranges that is recorded */
	uint32_t steps;      /* how many numbers from there on are recorded, at most CT_STEPS_MAX; 0: all ranges */
	uint32_t functions;  /* ct_function, behind this struct, before all else */
	struct ct_python python;
};
#define CT_GO_NO_CUPTI 1u      /* stay connected, record nothing */
#define CT_GO_PAUSED 2u        /* record nothing before RESUME */
#define CT_GO_CAPTURE_RANGE 4u /* record only between cudaProfilerStart and cudaProfilerStop */
#define CT_GO_OWN_CLOCK 8u     /* leave CUPTI its own clock, and measure that */
#define CT_GO_WATCH_CLIENTS 16u /* notice another CUPTI client, since no OTHER_CLIENT will tell */
/*
 * Make no API records of the runtime's functions, but give those of the driver's the return
 * addresses above the call. Where that is impossible, the runtime's functions have records, unless
 * it shows later; a NOTE says so.
 */
#define CT_GO_CALLERS 32u
/*
 * CUDA has long started. Records of single calls cannot be switched on any more: all calls of both
 * domains have records, and the library keeps the wanted ones. A CUPTI client that is there already stays alone.
 */
#define CT_GO_LATE 64u
#define CT_GO_PYTHON 128u /* give API records of the driver's functions the Python frames above the call */
#define CT_GO_TORCH 256u /* a TORCH may follow: the operators of PyTorch above the call, too */

/* Where CUPTI's callbacks find a value of a call. */
struct ct_argument {
	uint8_t at;     /* bytes into the call's arguments, which lie there as in a struct */
	uint8_t from;   /* CT_FROM_* */
	uint8_t offset; /* bytes, behind the pointer that is there */
	uint8_t bytes;  /* 4 or 8 */
};
#define CT_FROM_ARGUMENT 0u
#define CT_FROM_POINTER 1u /* what the argument points to, when the call has returned */
#define CT_FROM_CONTEXT 2u /* CUPTI's number of the thread's context */

/* A function of the driver whose calls CUPTI's callbacks are to tell, with their arguments. */
struct ct_function {
	char name[CT_FUNCTION_NAME_MAX]; /* as CUPTI has it */
	uint32_t id;                     /* of a CALL */
	uint32_t count;                  /* of args */
	struct ct_argument args[12];
};

/*
 * The page beside the library of a process that waits for a recorder (armed.c). The recorder writes
 * the list, then another word, and rings it.
 */
#define CT_ARMED_PIDS 1018u
#define CT_ARMED_THREAD "cudatrace-armed" /* its name, while it waits */

struct ct_armed {
	_Atomic uint32_t word;  /* a futex */
	_Atomic uint32_t count; /* of pids */
	uint32_t filters;       /* of system calls, that the program was started with; for the recorder, as the next */
	uint32_t pad;
	uint64_t space; /* inode of the PID namespace in which the program was started */
	_Atomic uint32_t pids[CT_ARMED_PIDS]; /* the processes that are to connect, each in its own PID namespace */
};

/*
 * Calls that have begun, in the memory that the recorder shares with the library. What is in it
 * outlives the process: opencalls.c says how the call is found that a thread is in.
 */
#define CT_OPEN_CALLS 512u /* threads */
#define CT_OPEN_PLACES 15u /* in CUPTI, from which its callback is called */

struct ct_open {
	_Atomic uint32_t sequence;             /* odd while the fields from time on are written */
	_Atomic uint32_t tid;                  /* in the program's own PID namespace, 0 for a free entry */
	_Atomic uint64_t last[CT_OPEN_PLACES]; /* when the callback was called last, by place */
	uint64_t time;                         /* of the call of the callback that found the rest */
	uint64_t inner;                        /* innermost return address in the function of the driver's */
	uint64_t epoch;                        /* as in a CHAIN, as the next two */
	uint64_t count;
	uint64_t address[CT_CHAIN_MAX];
	uint64_t pad[6];
};

/*
 * Calls of CUPTI's timestamp callback, behind the memory of the messages: a ring for each thread, and the chains that its words
 * number. What is in it outlives the process, too. A word is what seen.h makes of one; pages that no thread has written to take no memory.
 */
#define CT_SEEN_RINGS 512u
#define CT_SEEN_WORDS 2019328u
#define CT_SEEN_SIZE (16u << 20) /* bytes */
#define CT_SEEN_CHAIN_BITS 13
#define CT_SEEN_SITE_BITS 4

struct ct_seen_ring {
	_Atomic uint32_t written; /* words so far */
	uint32_t size;            /* words, a power of two; 0 for no ring */
	uint32_t at;              /* of its first word, in words from the first of all */
	uint32_t tid;             /* of the latest owner */
	uint32_t pad[12];
};

/* A chain of return addresses, by its number. */
struct ct_known_chain {
	_Atomic uint64_t hash; /* of epoch, inner and addresses; 0 marks a free entry */
	uint64_t inner;        /* return address in the function of the driver's that was called */
	uint32_t epoch;
	_Atomic uint16_t count; /* of addresses; 0 until they are there */
	atomic_bool due;        /* to be sent soon */
	uint64_t address[CT_CHAIN_MAX];
};

struct ct_seen_memory {
	struct ct_seen_ring rings[CT_SEEN_RINGS];
	struct ct_known_chain chains[CT_CHAINS_MAX];
	_Atomic uint64_t words[CT_SEEN_WORDS];
};

/*
 * After FINALIZE. While all threads of the program are stopped, the library first takes the locks that they may hold: if one
 * does, the recorder has them go on, and tries again.
 */
#define CT_DOOR_READY 1u   /* the library: CUPTI is off, and its records are handed over */
#define CT_DOOR_STOPPED 2u /* the recorder: the program's threads are stopped outside of CUDA */
#define CT_DOOR_BEGUN 3u   /* the library: no lock is held; cuptiFinalize is called */
#define CT_DOOR_DONE 4u    /* the library: it has returned */
#define CT_DOOR_FAILED 5u  /* the library: likewise, with an error; or it will not be called */
#define CT_DOOR_OVER 6u    /* the recorder: the threads cannot be stopped; the library: CUPTI was never on */
#define CT_DOOR_GRAPHS 7u  /* the library: cuptiFinalize will not be called, because of graphs */

#define CT_OUT_SIZE (128u << 10) /* of the ring from the library to the recorder, bytes */
#define CT_IN_SIZE (16u << 10)   /* of the other; each message is written to it as a whole */

/*
 * A stream of bytes with one writer and one reader. Byte number N is at N modulo the ring's size.
 * The recorder keeps its own positions to itself: a process can write any here.
 */
struct ct_ring {
	_Atomic uint64_t written; /* bytes, ever */
	_Atomic uint64_t read;
	_Atomic uint32_t waits; /* a futex; 1 while the library waits for room, the recorder makes it 0 */
	uint32_t pad;
	uint64_t pads[5];
};

/*
 * The memory of one process. Its descriptor comes with the first byte of GO, before that of the
 * recorder's memory.
 */
struct ct_shared {
	_Atomic uint64_t from; /* calls that began before are not believed */
	_Atomic uint64_t places; /* bits 0: calls begin; 16: within a call; bit 32: ends are noticed */
	_Atomic uint32_t bell;   /* a futex; either side adds 1 to have the control thread look */
	_Atomic uint32_t closed; /* 1: the library sends nothing more */
	_Atomic uint32_t left;   /* 1: the recorder reads nothing more */
	_Atomic uint32_t door;   /* a futex; CT_DOOR_* */
	_Atomic uint32_t switching; /* calls of CUPTI in progress that switch records on or off */
	uint32_t pad;
	uint64_t pads[3];
	struct ct_ring out, in; /* from the library, to the library */
	uint8_t sender[64]; /* a robust mutex that the sender thread holds: a u32, CT_DIED when it has ended */
	struct ct_open calls[CT_OPEN_CALLS];
	uint8_t in_data[CT_IN_SIZE];
	uint8_t out_data[CT_OUT_SIZE];
};

/* The recorder's memory, which all processes map. */
struct ct_recorder {
	_Atomic uint32_t asleep; /* a futex; 1 while the recorder waits for messages, who sends one makes it 0 and wakes */
	_Atomic uint32_t life;   /* held as a robust futex: CT_DIED when the recorder has ended */
	uint64_t pad[7];
};
#define CT_DIED 0x40000000u /* FUTEX_OWNER_DIED of linux/futex.h */

/* Groups of records beside those of calls. */
#define CT_RECORDS_WORK 1u /* kernels, memcpys, memsets; devices, contexts, streams, pools of memory; CUPTI's own time */
#define CT_RECORDS_NVTX 2u /* marks, ranges, names */

/* DEPTH: how many return addresses of the chains with this innermost one are of use. */
struct ct_depth {
	uint64_t address;
	uint32_t depth; /* 1 to CT_CHAIN_MAX */
	uint32_t pad;
};

/* STATUS, then the path of libcupti, then words about a failure. */
struct ct_status {
	uint32_t state;          /* CT_STATUS_* */
	uint32_t cupti_version;  /* cuptiGetVersion, 0 without libcupti */
	uint32_t driver_version; /* cuDriverGetVersion */
	uint32_t path_len;
	uint32_t text_len;
	/*
	 * A signal that has the library hand over, for a thread that is about to end the
	 * program or to run another in its place; 0 without one. It may be sent only
	 * while its handler is the function at this address, and while the word at
	 * exit_over is 0: then all is handed over that ever will be.
	 */
	uint32_t exit_signal;
	uint64_t exit_handler;
	uint64_t exit_over;
};
#define CT_STATUS_OFF 0u
#define CT_STATUS_ON 1u
#define CT_STATUS_TAKEN 2u /* sent when another client gets the records */

/* CLOCK: how times of CUPTI become CLOCK_MONOTONIC; sent when it changes. */
struct ct_clock {
	uint32_t mode; /* CT_CLOCK_* */
	uint32_t pad;
	uint64_t error; /* the largest error so far, ns */
};
#define CT_CLOCK_COMMON 0u     /* CUPTI reads CLOCK_MONOTONIC through our callback */
#define CT_CLOCK_CALIBRATED 1u /* offset from cuptiGetTimestamp between two readings */
#define CT_CLOCK_REALTIME 2u   /* CUPTI's times turned out to be CLOCK_REALTIME */
#define CT_CLOCK_SILENT 3u     /* with our callback CUPTI gives kernels no times at all */
#define CT_CLOCK_MODES 4u

/* LOST: records lost since the last LOST of the same cause. */
struct ct_lost {
	uint32_t cause; /* CT_LOST_* */
	uint32_t pad;
	uint64_t count;
	uint64_t from, to;
};

enum ct_lost_cause {
	CT_LOST_QUEUE = 1,      /* records: the recorder read too slowly, the queue was full */
	CT_LOST_CUPTI = 2,      /* records: CUPTI counted them as dropped */
	CT_LOST_BUFFER = 3,     /* records, at least: there was no buffer left to give CUPTI */
	CT_LOST_TIME = 4,       /* times: the record is sent with start and end 0 */
	CT_LOST_CLOCK = 5,      /* times: on no clock we know; sent with start and end 0 */
	CT_LOST_NAME = 6,       /* names: the table of names was full; sent with name 0 */
	CT_LOST_UNREADABLE = 7, /* rests of buffers that CUPTI refused to step through */
	CT_LOST_UNFINISHED = 8, /* ends: work still running at the last flush; end 0 */
	CT_LOST_CUT = 9,        /* rests of texts longer than CT_NAME_MAX */
	CT_LOST_PYTHON = 10,    /* Python stacks: a table was full, or just being written; sent with python 0 */
	CT_LOST_OPERATOR = 11,  /* stacks of operators, likewise; sent with operators 0 */
	CT_LOST_SPAN = 12,      /* operators: the queue was full */
	CT_LOST_MEMORY = 13,    /* what calls allocate and free, for a while: another CUPTI client had the callbacks */
	CT_LOST_RANGE = 14,     /* NVTX ranges and marks of an armed process: more open, nested or threads than are kept */
	CT_LOST_CAUSES
};

/* REMARK is said at once; nothing is missing. STEP, without a text: an NVTX range has begun that is of no recorded step */
enum { CT_NOTE_INFO = 0, CT_NOTE_WARNING = 1, CT_NOTE_REMARK = 2, CT_NOTE_STEP = 3 };

/* NOTE, then its text: a line that a person should see. */
struct ct_note {
	uint32_t severity; /* CT_NOTE_* */
	uint32_t text_len;
};

/* FLUSHED: work that the GPU had ended by then has been sent, or counted as lost. */
struct ct_flushed {
	uint64_t until;
};

/*
 * BYE, the last message, and HANDOVER, which may be the last. Counts are what CUPTI
 * delivered in all.
 */
struct ct_bye {
	uint32_t reason; /* CT_BYE_* */
	uint32_t detail; /* the number of the signal */
	uint64_t now;
	uint64_t kernels, memcpys, memsets, apis;
	uint64_t until;   /* as in FLUSHED; 0 when CUPTI could not be asked any more */
};
#define CT_BYE_EXIT 1u
#define CT_BYE_STOP 2u
#define CT_BYE_SIGNAL 3u /* one that kills the program */
#define CT_BYE_QUICK_EXIT 4u
#define CT_BYE_ASKED 5u /* the exit signal came: its sender knows why */
#define CT_BYE_FAILED 6u /* the library cannot go on; the program runs on */

/* STRING, then length bytes and zeros up to a multiple of 8. */
struct ct_string {
	struct ct_head head;
	uint32_t id;
	uint32_t length;
	uint32_t pad;
};

/* CHAIN (CT_REC_CALLER), then count times u64: return addresses above a call, the innermost first. */
struct ct_chain {
	struct ct_head head;
	uint32_t id;
	uint64_t epoch; /* grows when the program may have unloaded a library */
	uint32_t count;
	uint32_t pad;
};

/*
 * CODE (CT_REC_PYTHON_FRAME), a code object of Python; then the characters of its name and of its file, its line table,
 * and zeros up to a multiple of 8.
 */
struct ct_code {
	struct ct_head head;
	uint32_t id;
	int32_t first_line;
	uint32_t name_size, file_size, table_size; /* bytes */
	uint8_t name_width, file_width;            /* bytes of a character */
	uint8_t no_table;                          /* 1: it was too long */
	uint8_t pads[5];
};

/* STACK (CT_REC_PYTHON_STACK), a Python frame and those that called it. */
struct ct_stack {
	struct ct_head head;
	uint32_t id;
	uint32_t parent; /* the stack of its caller, 0 without one */
	uint32_t code;   /* 0: frames are left out here */
	int32_t offset;  /* of the instruction in the code, bytes; why frames are left out: CT_LEFT_OUT_* */
	uint32_t pad;
};
#define CT_LEFT_OUT_DEEP 1
#define CT_LEFT_OUT_CUT 2

/* OPERATOR_STACK, an operator of PyTorch and those that called it; then its name, and zeros up to a multiple of 8. */
struct ct_operator {
	struct ct_head head;
	uint32_t id;
	uint32_t parent;  /* the stack of its caller, 0 without one */
	uint32_t forward; /* of a backward operator: the stack of the forward one that made it, 0 when not known */
	uint16_t scope;   /* at::RecordScope: 0 function, 1 backward function, 7 the program's own range */
	uint16_t length;  /* bytes of the name */
	uint32_t pad;
};

/* What is known of a CT_REC_NCCL_CALL. */
#define CT_NCCL_COMMUNICATOR 1u
#define CT_NCCL_BYTES 2u
#define CT_NCCL_RANKS 4u

_Static_assert(sizeof(struct ct_frame) == 8, "frame");
_Static_assert(sizeof(struct ct_hello) == 24, "hello");
_Static_assert(sizeof(struct ct_python) == 112, "python");
_Static_assert(sizeof(struct ct_torch) == 56, "torch");
_Static_assert(sizeof(struct ct_operator) == 24, "operator");
_Static_assert(sizeof(struct ct_go) == 168, "go");
_Static_assert(sizeof(struct ct_function) == 104, "function");
_Static_assert(sizeof(struct ct_depth) == 16, "depth");
_Static_assert(sizeof(struct ct_open) == 256, "open");
_Static_assert(sizeof(struct ct_ring) == 64, "ring");
_Static_assert(sizeof(struct ct_shared) == 256 + 512 * 256 + CT_IN_SIZE + CT_OUT_SIZE, "shared");
_Static_assert(sizeof(struct ct_seen_memory) == CT_SEEN_SIZE, "seen");
_Static_assert(sizeof(struct ct_recorder) == 64, "recorder");
_Static_assert(sizeof(struct ct_armed) == 4096, "armed");
_Static_assert(sizeof(struct ct_status) == 40, "status");
_Static_assert(sizeof(struct ct_clock) == 16, "clock");
_Static_assert(sizeof(struct ct_lost) == 32, "lost");
_Static_assert(sizeof(struct ct_note) == 8, "note");
_Static_assert(sizeof(struct ct_bye) == 56, "bye");
_Static_assert(sizeof(struct ct_flushed) == 8, "flushed");
_Static_assert(sizeof(struct ct_string) == 16, "string");
_Static_assert(sizeof(struct ct_chain) == 24, "chain");
_Static_assert(sizeof(struct ct_code) == 32, "code");
_Static_assert(sizeof(struct ct_stack) == 24, "stack");

#endif
