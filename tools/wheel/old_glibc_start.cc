// Programs start here (--entry). Since 2.34 __libc_start_main runs the program's own constructors;
// before, it called a function that was given to it, which the startup code of today's glibc leaves
// out.
extern "C" {
using Constructor = void (*)(int, char**, char**);
extern Constructor __init_array_start[] __attribute__((weak, visibility("hidden")));
extern Constructor __init_array_end[] __attribute__((weak, visibility("hidden")));

__attribute__((used)) void unisono_old_glibc_construct(int argc, char** argv, char** environment) {
  for (Constructor* next = __init_array_start; next != __init_array_end; ++next) (*next)(argc, argv, environment);
}
}

#if defined(__x86_64__)
asm(R"(
  .section .text.unisono_old_glibc_start,"ax",@progbits
  .globl unisono_old_glibc_start
  .hidden unisono_old_glibc_start
  .type unisono_old_glibc_start,@function
unisono_old_glibc_start:
  xor %ebp, %ebp
  mov %rdx, %r9
  pop %rsi
  mov %rsp, %rdx
  and $-16, %rsp
  push %rax
  push %rsp
  xor %r8d, %r8d
  lea unisono_old_glibc_construct(%rip), %rcx
  mov main@GOTPCREL(%rip), %rdi
  call *__libc_start_main@GOTPCREL(%rip)
  hlt
  .text
)");
#elif defined(__aarch64__)
asm(R"(
  .section .text.unisono_old_glibc_start,"ax",%progbits
  .globl unisono_old_glibc_start
  .hidden unisono_old_glibc_start
  .type unisono_old_glibc_start,%function
unisono_old_glibc_start:
  mov x29, #0
  mov x30, #0
  mov x5, x0
  ldr x1, [sp]
  add x2, sp, #8
  mov x6, sp
  adrp x0, :got:main
  ldr x0, [x0, #:got_lo12:main]
  adrp x3, unisono_old_glibc_construct
  add x3, x3, #:lo12:unisono_old_glibc_construct
  mov x4, #0
  bl __libc_start_main
  bl abort
  .text
)");
#endif
