#include "simulate/model.h"

#include <gmock/gmock.h>

namespace unisono::simulate {
namespace {

using ::testing::HasSubstr;

Model parsed(std::string_view text) {
  auto model = parse_model(text);
  EXPECT_TRUE(model.ok()) << text << ": " << model.status().message();
  return model ? *model : Model{};
}

std::string refused(std::string_view text) {
  const auto model = parse_model(text);
  EXPECT_FALSE(model.ok()) << text;
  return model ? "" : model.status().message();
}

TEST(Model, TextIsTheInverseOfParsing) {
  for (const std::string_view text :
       {"alpha-beta:alpha=20us,beta=8ns/B", "loggp:L=1.2us,o=300ns,g=400ns,G=40ps/B,gamma=50ps/B+fat-tree:k=8,taper=2",
        "loggp:L=1us,o=0s,g=0s,G=1ns/B,O=250ps/B,header=0,ports=fair+local:L=1us,o=2us,G=30ps/"
        "B+dragonfly:a=4,h=2,p=2,hop=50ns,link=20ps/B",
        "loggp:L=1us,o=0s,g=0s,G=1ns/B,copy=0ns/B,buffer=65536+torus:8x4x1"}) {
    const Model model = parsed(text);
    EXPECT_EQ(to_text(model), text);
    EXPECT_EQ(parsed(to_text(model)), model);
  }
  for (const Preset& preset : presets())
    EXPECT_EQ(to_text(parsed(to_text(parsed(preset.name)))), to_text(parsed(preset.name)));
}

TEST(Model, UnitsAreTimesOrRates) {
  const Model model = parsed("loggp:L=0.5ms,o=2us,g=3ns,G=10Gbit/s,O=2GB/s");
  EXPECT_DOUBLE_EQ(model.network.L, 0.5e-3);
  EXPECT_DOUBLE_EQ(model.network.o, 2e-6);
  EXPECT_DOUBLE_EQ(model.network.g, 3e-9);
  EXPECT_DOUBLE_EQ(model.network.G, 0.8e-9);
  EXPECT_DOUBLE_EQ(model.network.O, 0.5e-9);
}

TEST(Model, PresetsAndJsonSayTheSameAsText) {
  Model by_hand = parsed("10g");
  by_hand.network.L = 5e-6;
  EXPECT_EQ(parsed("10g:L=5us"), by_hand);
  EXPECT_EQ(parsed(R"({"10g": {"L": "5us"}, "torus": "4x4", "local": {"o": "1us"}})"),
            parsed("10g:L=5us+torus:4x4+local:o=1us"));
  EXPECT_EQ(parsed(R"({"10g": {}, "fat-tree": {"k": 8, "taper": 1.5}})"), parsed("10g+fat-tree:k=8,taper=1.5"));
}

TEST(Model, ErrorsShowWhatCanBeWritten) {
  EXPECT_THAT(refused("9g"), HasSubstr("there are loggp, alpha-beta, 1g"));
  EXPECT_THAT(refused("fat-tree:k=8"), HasSubstr("switches come behind one, as in 100g+fat-tree:k=8"));
  EXPECT_THAT(refused("loggp:X=1us"), HasSubstr("no \"X\": there are"));
  EXPECT_THAT(refused("loggp:L=1"), HasSubstr("is not a time"));
  EXPECT_THAT(refused("loggp:L=-1us"), HasSubstr("is not a time"));
  EXPECT_THAT(refused("loggp:G=1us"), HasSubstr("10Gbit/s"));
  EXPECT_THAT(refused("10g+ring"), HasSubstr("there are local, crossbar, fat-tree, dragonfly, torus"));
  EXPECT_THAT(refused("10g+fat-tree:k=7"), HasSubstr("must be even"));
  EXPECT_THAT(refused("10g+torus:8x8x8x8"), HasSubstr("one to three sides"));
  EXPECT_THAT(refused("10g+torus:0x8"), HasSubstr("torus"));
  EXPECT_THAT(refused("10g+torus:2000x2000x2000"), HasSubstr("at most"));
  EXPECT_THAT(refused("loggp:ports=sometimes"), HasSubstr("serial or fair"));
  EXPECT_THAT(refused("{]"), HasSubstr("JSON"));
}

}  // namespace
}  // namespace unisono::simulate
