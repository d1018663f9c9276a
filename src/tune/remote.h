// remote.h -- a task and its schedules as a frame that workers take.
#ifndef TENON_TUNE_REMOTE_H
#define TENON_TUNE_REMOTE_H

#include "tune/frame.h"
#include "tune/measure.h"

// Kernel i of the frame is rival of[i]; the first is the default.  Memory is the stage's.
// EUNSUPPORTED: a worker cannot be told of it.
MUST_USE tenon_status remote_task(Stage *s, const Building *b, FrameTask *out);

#endif
