#pragma once
/// Whether anybody else in this process could call.

namespace unisono::group {

/// Whether the process has no threads but the caller and this library's. False where nobody can
/// tell.
bool is_only_thread() noexcept;

}  // namespace unisono::group
