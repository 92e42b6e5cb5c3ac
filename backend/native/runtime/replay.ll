; Calls replayed, and turns of loops.  Structures are fields of eight bytes:
;
;   record   next, busy, arguments, arrays*, how many, numbers*, how many, results*, how many,
;            operations*, how many
;   array    position among the arguments (or -1), object (if -1), type*, rank,
;            (extent, stride)*, places* that take its address, how many
;   number   position, kind (0 float, 1 int, 2 bool), least and greatest bits (signed), bits,
;            places*, how many
;   result   type*, rank, extents*, blocks* (object, address), how many (0: NumPy's memory),
;            places*, how many, the array
;
; replay.py writes them, and checks before that CPython and NumPy keep things where this code looks.

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; Whether all were done; not, if a test or a launch failed.
define internal i1 @execute(ptr %operations, i64 %count, i64 %turn) nounwind {
entry:
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %k.next, %next ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %one, label %all
one:
  %at = getelementptr [6 x i64], ptr %operations, i64 %k
  %at1 = getelementptr i64, ptr %at, i64 1
  %at2 = getelementptr i64, ptr %at, i64 2
  %at3 = getelementptr i64, ptr %at, i64 3
  %at4 = getelementptr i64, ptr %at, i64 4
  %what = load i64, ptr %at
  %a = load ptr, ptr %at1
  %b = load ptr, ptr %at2
  %c = load i64, ptr %at3
  %d = load i64, ptr %at4
  switch i64 %what, label %next [
    i64 0, label %launch
    i64 1, label %fill
    i64 2, label %copy
    i64 3, label %test
    i64 4, label %number
    i64 5, label %failure
  ]
launch:
  call void @parallel(ptr %a, ptr %b, i64 %c, i64 %d)
  br label %next
fill:
  call void @llvm.memset.p0.i64(ptr %a, i8 0, i64 %c, i1 false)
  br label %next
copy:
  call void @llvm.memcpy.p0.p0.i64(ptr %a, ptr %b, i64 %c, i1 false)
  br label %next
test:
  %flag = load i8, ptr %a
  %on = icmp ne i8 %flag, 0
  br i1 %on, label %next, label %stop
number:
  store i64 %turn, ptr %a
  br label %next
failure:
  %error = load i64, ptr %a
  %well = icmp eq i64 %error, 0
  br i1 %well, label %next, label %stop
next:
  %k.next = add i64 %k, 1
  br label %head
all:
  ret i1 true
stop:
  ret i1 false
}

; `phases`: for each, a pointer to its operations and their number.  Turns first … last - 1, which
; the phases share in rotation from turn `origin` on; the number of the turn whose test failed, or
; `last`.
define i64 @turns(ptr %phases, i64 %count, i64 %origin, i64 %first, i64 %last) nounwind {
entry:
  br label %head
head:
  %turn = phi i64 [ %first, %entry ], [ %turn.next, %one ]
  %more = icmp slt i64 %turn, %last
  br i1 %more, label %one, label %done
one:
  %since = sub i64 %turn, %origin
  %phase = urem i64 %since, %count
  %at = getelementptr [2 x i64], ptr %phases, i64 %phase
  %at1 = getelementptr i64, ptr %at, i64 1
  %operations = load ptr, ptr %at
  %length = load i64, ptr %at1
  %on = call i1 @execute(ptr %operations, i64 %length, i64 %turn)
  %turn.next = add i64 %turn, 1
  br i1 %on, label %head, label %done
done:
  ret i64 %turn
}
@py.None = external global i8
@py.True = external global i8
@py.float = external global i8
@py.int = external global i8
@py.bool = external global i8
@py.ndarray = external global i8
declare ptr @py.SaveThread()
declare void @parallel(ptr, ptr, i64, i64)
declare void @py.RestoreThread(ptr)
declare void @py.IncRef(ptr)
declare void @py.DecRef(ptr)
declare void @py.ErrClear()
declare double @py.FloatAsDouble(ptr)
declare i64 @py.LongAsLongLongAndOverflow(ptr, ptr)
declare ptr @py.TupleNew(i64)
declare i32 @py.TupleSetItem(ptr, i64, ptr)
declare ptr @np.NewFromDescr(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare i32 @np.SetBaseObject(ptr, ptr)
declare i32 @memcmp(ptr, ptr, i64)

; Whether an array is as recorded: class, type, rank, extents, strides, alignment.
define internal i1 @fits(ptr %array, ptr %about) nounwind {
entry:
  %class.at = getelementptr i8, ptr %array, i64 8
  %class = load ptr, ptr %class.at
  %is = icmp eq ptr %class, @py.ndarray
  br i1 %is, label %look, label %no
look:
  %descr.at = getelementptr i8, ptr %array, i64 56
  %descr = load ptr, ptr %descr.at
  %descr.wanted.at = getelementptr i64, ptr %about, i64 2
  %descr.wanted = load ptr, ptr %descr.wanted.at
  %descr.is = icmp eq ptr %descr, %descr.wanted
  %rank.at = getelementptr i8, ptr %array, i64 24
  %rank = load i32, ptr %rank.at
  %rank.wanted.at = getelementptr i64, ptr %about, i64 3
  %rank.wanted = load i64, ptr %rank.wanted.at
  %rank.wide = zext i32 %rank to i64
  %rank.is = icmp eq i64 %rank.wide, %rank.wanted
  %flags.at = getelementptr i8, ptr %array, i64 64
  %flags = load i32, ptr %flags.at
  %aligned = and i32 %flags, 256
  %aligned.is = icmp ne i32 %aligned, 0
  %both = and i1 %descr.is, %rank.is
  %all = and i1 %both, %aligned.is
  br i1 %all, label %extents, label %no
extents:
  %extents.at = getelementptr i64, ptr %about, i64 4
  %wanted = load ptr, ptr %extents.at
  %shape.at = getelementptr i8, ptr %array, i64 32
  %shape = load ptr, ptr %shape.at
  %strides.at = getelementptr i8, ptr %array, i64 40
  %strides = load ptr, ptr %strides.at
  br label %head
head:
  %k = phi i64 [ 0, %extents ], [ %k.next, %next ]
  %more = icmp ult i64 %k, %rank.wanted
  br i1 %more, label %one, label %yes
one:
  %n.at = getelementptr i64, ptr %shape, i64 %k
  %n = load i64, ptr %n.at
  %s.at = getelementptr i64, ptr %strides, i64 %k
  %s = load i64, ptr %s.at
  %w.at = getelementptr [2 x i64], ptr %wanted, i64 %k
  %w = load i64, ptr %w.at
  %v.at = getelementptr i64, ptr %w.at, i64 1
  %v = load i64, ptr %v.at
  %n.is = icmp eq i64 %n, %w
  %s.is = icmp eq i64 %s, %v
  %same = and i1 %n.is, %s.is
  br i1 %same, label %next, label %no
next:
  %k.next = add i64 %k, 1
  br label %head
yes:
  ret i1 true
no:
  ret i1 false
}

; Whether a number is of the recorded kind and in its range; its bits are left in the entry.
define internal i1 @agrees(ptr %object, ptr %about) nounwind {
entry:
  %overflow = alloca i32
  %class.at = getelementptr i8, ptr %object, i64 8
  %class = load ptr, ptr %class.at
  %kind.at = getelementptr i64, ptr %about, i64 1
  %kind = load i64, ptr %kind.at
  switch i64 %kind, label %no [
    i64 0, label %float
    i64 1, label %int
    i64 2, label %bool
  ]
float:
  %float.is = icmp eq ptr %class, @py.float
  br i1 %float.is, label %float.get, label %no
float.get:
  %double = call double @py.FloatAsDouble(ptr %object)
  %double.bits = bitcast double %double to i64
  br label %have
int:
  %int.is = icmp eq ptr %class, @py.int
  br i1 %int.is, label %int.get, label %no
int.get:
  %whole = call i64 @py.LongAsLongLongAndOverflow(ptr %object, ptr %overflow)
  %over = load i32, ptr %overflow
  %over.no = icmp eq i32 %over, 0
  br i1 %over.no, label %have, label %no
bool:
  %bool.is = icmp eq ptr %class, @py.bool
  br i1 %bool.is, label %bool.get, label %no
bool.get:
  %true = icmp eq ptr %object, @py.True
  %truth = zext i1 %true to i64
  br label %have
have:
  %bits = phi i64 [ %double.bits, %float.get ], [ %whole, %int.get ], [ %truth, %bool.get ]
  %least.at = getelementptr i64, ptr %about, i64 2
  %least = load i64, ptr %least.at
  %most.at = getelementptr i64, ptr %about, i64 3
  %most = load i64, ptr %most.at
  %bits.at = getelementptr i64, ptr %about, i64 4
  store i64 %bits, ptr %bits.at
  %above = icmp sge i64 %bits, %least
  %below = icmp sle i64 %bits, %most
  %inside = and i1 %above, %below
  ret i1 %inside
no:
  ret i1 false
}

; Memory that nobody refers to but the record: its entry in `blocks` (object, address), or null.
define internal ptr @idle(ptr %blocks, i64 %count) nounwind {
entry:
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %k.next, %next ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %one, label %none
one:
  %at = getelementptr [2 x i64], ptr %blocks, i64 %k
  %object = load ptr, ptr %at
  %references = load i32, ptr %object
  %free = icmp eq i32 %references, 1
  br i1 %free, label %found, label %next
next:
  %k.next = add i64 %k, 1
  br label %head
found:
  ret ptr %at
none:
  ret ptr null
}

; A new array for a result, or null.
define internal ptr @make(ptr %about) nounwind {
entry:
  %descr = load ptr, ptr %about
  %rank.at = getelementptr i64, ptr %about, i64 1
  %rank.wide = load i64, ptr %rank.at
  %rank = trunc i64 %rank.wide to i32
  %extents.at = getelementptr i64, ptr %about, i64 2
  %extents = load ptr, ptr %extents.at
  %blocks.at = getelementptr i64, ptr %about, i64 3
  %blocks = load ptr, ptr %blocks.at
  %count.at = getelementptr i64, ptr %about, i64 4
  %count = load i64, ptr %count.at
  %own = icmp eq i64 %count, 0
  br i1 %own, label %fresh, label %pooled
fresh:
  call void @py.IncRef(ptr %descr)
  %new = call ptr @np.NewFromDescr(ptr @py.ndarray, ptr %descr, i32 %rank, ptr %extents, ptr null, ptr null, i32 0, ptr null)
  ret ptr %new
pooled:
  %block = call ptr @idle(ptr %blocks, i64 %count)
  %none = icmp eq ptr %block, null
  br i1 %none, label %no, label %use
use:
  %object = load ptr, ptr %block
  %place.at = getelementptr i64, ptr %block, i64 1
  %place = load ptr, ptr %place.at
  call void @py.IncRef(ptr %descr)
  %view = call ptr @np.NewFromDescr(ptr @py.ndarray, ptr %descr, i32 %rank, ptr %extents, ptr null, ptr %place, i32 1281, ptr null)
  %failed = icmp eq ptr %view, null
  br i1 %failed, label %no, label %own.it
own.it:
  call void @py.IncRef(ptr %object)
  %based = call i32 @np.SetBaseObject(ptr %view, ptr %object)
  %based.ok = icmp eq i32 %based, 0
  br i1 %based.ok, label %done, label %undo
undo:
  call void @py.DecRef(ptr %view)
  ret ptr null
done:
  ret ptr %view
no:
  ret ptr null
}

; Eight bytes, an address or a number, into every place that takes them.
define internal void @patch(ptr %places, i64 %count, ptr %bits) nounwind {
entry:
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %k.next, %one ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %one, label %done
one:
  %at = getelementptr ptr, ptr %places, i64 %k
  %place = load ptr, ptr %at
  store ptr %bits, ptr %place
  %k.next = add i64 %k, 1
  br label %head
done:
  ret void
}

; The record that this call fits, or null.
define internal ptr @matching(ptr %first, ptr %args, i64 %count) nounwind {
entry:
  br label %head
head:
  %record = phi ptr [ %first, %entry ], [ %following, %other ]
  %none = icmp eq ptr %record, null
  br i1 %none, label %done, label %look
look:
  %busy.at = getelementptr i64, ptr %record, i64 1
  %busy = load i64, ptr %busy.at
  %free = icmp eq i64 %busy, 0
  %count.at = getelementptr i64, ptr %record, i64 2
  %count.wanted = load i64, ptr %count.at
  %as.many = icmp eq i64 %count, %count.wanted
  %possible = and i1 %free, %as.many
  br i1 %possible, label %arrays, label %other
arrays:
  %arrays.at = getelementptr i64, ptr %record, i64 3
  %entries = load ptr, ptr %arrays.at
  %arrays.count.at = getelementptr i64, ptr %record, i64 4
  %arrays.count = load i64, ptr %arrays.count.at
  br label %array.head
array.head:
  %k = phi i64 [ 0, %arrays ], [ %k.next, %array.next ]
  %k.more = icmp ult i64 %k, %arrays.count
  br i1 %k.more, label %array, label %numbers
array:
  %entry.at = getelementptr [7 x i64], ptr %entries, i64 %k
  %position = load i64, ptr %entry.at
  %given = icmp sge i64 %position, 0
  br i1 %given, label %argument, label %captured
argument:
  %arg.at = getelementptr ptr, ptr %args, i64 %position
  %arg = load ptr, ptr %arg.at
  br label %check
captured:
  %held.at = getelementptr i64, ptr %entry.at, i64 1
  %held = load ptr, ptr %held.at
  br label %check
check:
  %array.object = phi ptr [ %arg, %argument ], [ %held, %captured ]
  %array.fits = call i1 @fits(ptr %array.object, ptr %entry.at)
  br i1 %array.fits, label %array.next, label %other
array.next:
  %k.next = add i64 %k, 1
  br label %array.head
numbers:
  %numbers.at = getelementptr i64, ptr %record, i64 5
  %number.entries = load ptr, ptr %numbers.at
  %numbers.count.at = getelementptr i64, ptr %record, i64 6
  %numbers.count = load i64, ptr %numbers.count.at
  br label %number.head
number.head:
  %j = phi i64 [ 0, %numbers ], [ %j.next, %number.next ]
  %j.more = icmp ult i64 %j, %numbers.count
  br i1 %j.more, label %number, label %done
number:
  %number.at = getelementptr [7 x i64], ptr %number.entries, i64 %j
  %place = load i64, ptr %number.at
  %object.at = getelementptr ptr, ptr %args, i64 %place
  %object = load ptr, ptr %object.at
  %number.agrees = call i1 @agrees(ptr %object, ptr %number.at)
  br i1 %number.agrees, label %number.next, label %other
number.next:
  %j.next = add i64 %j, 1
  br label %number.head
other:
  %following = load ptr, ptr %record
  br label %head
done:
  ret ptr %record
}

; New arrays for all results: whether there is memory for them.
define internal i1 @prepare(ptr %entries, i64 %count) nounwind {
entry:
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %k.next, %next ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %one, label %all
one:
  %at = getelementptr [8 x i64], ptr %entries, i64 %k
  %made = call ptr @make(ptr %at)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %undo, label %next
next:
  %made.at = getelementptr i64, ptr %at, i64 7
  store ptr %made, ptr %made.at
  %k.next = add i64 %k, 1
  br label %head
undo:
  call void @py.ErrClear()
  call void @drop(ptr %entries, i64 %k)
  ret i1 false
all:
  ret i1 true
}

; The first of the new arrays are not wanted.
define internal void @drop(ptr %entries, i64 %count) nounwind {
entry:
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %k.next, %one ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %one, label %done
one:
  %at = getelementptr [8 x i64], ptr %entries, i64 %k
  %made.at = getelementptr i64, ptr %at, i64 7
  %made = load ptr, ptr %made.at
  call void @py.DecRef(ptr %made)
  %k.next = add i64 %k, 1
  br label %head
done:
  ret void
}

; The addresses of arguments and results, and the numbers, where the operations find them.
define internal void @fill_in(ptr %record, ptr %args) nounwind {
entry:
  %arrays.at = getelementptr i64, ptr %record, i64 3
  %arrays = load ptr, ptr %arrays.at
  %arrays.count.at = getelementptr i64, ptr %record, i64 4
  %arrays.count = load i64, ptr %arrays.count.at
  br label %array.head
array.head:
  %k = phi i64 [ 0, %entry ], [ %k.next, %array.place ]
  %k.more = icmp ult i64 %k, %arrays.count
  br i1 %k.more, label %array, label %numbers
array:
  %entry.at = getelementptr [7 x i64], ptr %arrays, i64 %k
  %position = load i64, ptr %entry.at
  %given = icmp sge i64 %position, 0
  br i1 %given, label %argument, label %captured
argument:
  %arg.at = getelementptr ptr, ptr %args, i64 %position
  %arg = load ptr, ptr %arg.at
  br label %array.place
captured:
  %held.at = getelementptr i64, ptr %entry.at, i64 1
  %held = load ptr, ptr %held.at
  br label %array.place
array.place:
  %object = phi ptr [ %arg, %argument ], [ %held, %captured ]
  %data.at = getelementptr i8, ptr %object, i64 16
  %data = load ptr, ptr %data.at
  %places.at = getelementptr i64, ptr %entry.at, i64 5
  %places = load ptr, ptr %places.at
  %places.count.at = getelementptr i64, ptr %entry.at, i64 6
  %places.count = load i64, ptr %places.count.at
  call void @patch(ptr %places, i64 %places.count, ptr %data)
  %k.next = add i64 %k, 1
  br label %array.head
numbers:
  %numbers.at = getelementptr i64, ptr %record, i64 5
  %numbers.entries = load ptr, ptr %numbers.at
  %numbers.count.at = getelementptr i64, ptr %record, i64 6
  %numbers.count = load i64, ptr %numbers.count.at
  br label %number.head
number.head:
  %j = phi i64 [ 0, %numbers ], [ %j.next, %number ]
  %j.more = icmp ult i64 %j, %numbers.count
  br i1 %j.more, label %number, label %results
number:
  %number.at = getelementptr [7 x i64], ptr %numbers.entries, i64 %j
  %bits.at = getelementptr i64, ptr %number.at, i64 4
  %bits = load ptr, ptr %bits.at
  %number.places.at = getelementptr i64, ptr %number.at, i64 5
  %number.places = load ptr, ptr %number.places.at
  %number.places.count.at = getelementptr i64, ptr %number.at, i64 6
  %number.places.count = load i64, ptr %number.places.count.at
  call void @patch(ptr %number.places, i64 %number.places.count, ptr %bits)
  %j.next = add i64 %j, 1
  br label %number.head
results:
  %results.at = getelementptr i64, ptr %record, i64 7
  %results.entries = load ptr, ptr %results.at
  %results.count.at = getelementptr i64, ptr %record, i64 8
  %results.count = load i64, ptr %results.count.at
  br label %result.head
result.head:
  %r = phi i64 [ 0, %results ], [ %r.next, %result ]
  %r.more = icmp ult i64 %r, %results.count
  br i1 %r.more, label %result, label %done
result:
  %result.at = getelementptr [8 x i64], ptr %results.entries, i64 %r
  %made.at = getelementptr i64, ptr %result.at, i64 7
  %made = load ptr, ptr %made.at
  %made.data.at = getelementptr i8, ptr %made, i64 16
  %made.data = load ptr, ptr %made.data.at
  %made.places.at = getelementptr i64, ptr %result.at, i64 5
  %made.places = load ptr, ptr %made.places.at
  %made.count.at = getelementptr i64, ptr %result.at, i64 6
  %made.count = load i64, ptr %made.count.at
  call void @patch(ptr %made.places, i64 %made.count, ptr %made.data)
  %r.next = add i64 %r, 1
  br label %result.head
done:
  ret void
}

; One array, or a tuple of several, out of a record's results.
define internal ptr @hand_over(ptr %entries, i64 %count) nounwind {
entry:
  %single = icmp eq i64 %count, 1
  br i1 %single, label %only, label %several
only:
  %only.at = getelementptr i64, ptr %entries, i64 7
  %one = load ptr, ptr %only.at
  ret ptr %one
several:
  %tuple = call ptr @py.TupleNew(i64 %count)
  %failed = icmp eq ptr %tuple, null
  br label %head
head:
  %k = phi i64 [ 0, %several ], [ %k.next, %next ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %item, label %done
item:
  %at = getelementptr [8 x i64], ptr %entries, i64 %k
  %made.at = getelementptr i64, ptr %at, i64 7
  %made = load ptr, ptr %made.at
  br i1 %failed, label %drop, label %set
drop:
  call void @py.DecRef(ptr %made)
  br label %next
set:
  %ignored = call i32 @py.TupleSetItem(ptr %tuple, i64 %k, ptr %made)
  br label %next
next:
  %k.next = add i64 %k, 1
  br label %head
done:
  ret ptr %tuple
}

; `self` is an array of one number, the address of the first record.
define ptr @replay(ptr %self, ptr %args, i64 %count) nounwind {
entry:
  %head.at = getelementptr i8, ptr %self, i64 16
  %head = load ptr, ptr %head.at
  %first = load ptr, ptr %head
  %record = call ptr @matching(ptr %first, ptr %args, i64 %count)
  %none = icmp eq ptr %record, null
  br i1 %none, label %miss, label %hit
hit:
  %results.at = getelementptr i64, ptr %record, i64 7
  %results = load ptr, ptr %results.at
  %results.count.at = getelementptr i64, ptr %record, i64 8
  %results.count = load i64, ptr %results.count.at
  %ready = call i1 @prepare(ptr %results, i64 %results.count)
  br i1 %ready, label %go, label %miss
go:
  %busy.at = getelementptr i64, ptr %record, i64 1
  store i64 1, ptr %busy.at
  call void @fill_in(ptr %record, ptr %args)
  %operations.at = getelementptr i64, ptr %record, i64 9
  %operations = load ptr, ptr %operations.at
  %operations.count.at = getelementptr i64, ptr %record, i64 10
  %operations.count = load i64, ptr %operations.count.at
  %thread = call ptr @py.SaveThread()
  %done = call i1 @execute(ptr %operations, i64 %operations.count, i64 0)
  call void @py.RestoreThread(ptr %thread)
  br i1 %done, label %well, label %failed
well:
  %given = call ptr @hand_over(ptr %results, i64 %results.count)
  store i64 0, ptr %busy.at
  ret ptr %given
failed:
  call void @drop(ptr %results, i64 %results.count)
  store i64 0, ptr %busy.at
  br label %miss
miss:
  call void @py.IncRef(ptr @py.None)
  ret ptr @py.None
}
