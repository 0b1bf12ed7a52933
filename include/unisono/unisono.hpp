#pragma once
/// unisono: collective communication between processes. Everything a user includes.
///
///   auto world = unisono::init();
///   std::vector<float> x(1000, 1.0f);
///   world.all_reduce(std::span(x));        // every x[i] is now world.size()

#include "unisono/buffer.hpp"
#include "unisono/config.hpp"
#include "unisono/error.hpp"
#include "unisono/group.hpp"
#include "unisono/registration.hpp"
#include "unisono/store.hpp"
#include "unisono/types.hpp"
#include "unisono/version.hpp"
#include "unisono/work.hpp"
