#pragma once
/// UNISONO_API marks what leaves the shared library; everything else has hidden visibility.
#define UNISONO_API __attribute__((visibility("default")))
